#include "machine.h"

#include <algorithm>

#include <pthread.h>

#include "common/environment.h"

namespace xpuemu {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kDefaultMemoryMib = 98304; // as a P800 reports

Settings Settings::fromEnvironment() {
    Settings settings;
    settings.devices = visibleDevices();
    settings.capacity = static_cast<uint64_t>(
        std::max<int64_t>(1, numberFromEnvironment("XPUEMU_MEMORY_MIB", kDefaultMemoryMib, int64_t{1} << 20)) * kMiB);
    const int64_t poison = numberFromEnvironment("XPUEMU_POISON", -1, UINT8_MAX);
    if (poison >= 0) {
        settings.poison = static_cast<uint8_t>(poison);
    }
    settings.pinned_copy_limit = static_cast<uint64_t>(numberFromEnvironment("XPUEMU_PINNED_COPY_LIMIT", 0, INT64_MAX));
    settings.failing_launch = static_cast<uint64_t>(numberFromEnvironment("XPUEMU_FAILING_LAUNCH", 0, INT64_MAX));
    return settings;
}

Device::Device(AddressSpace& space, int ordinal, int physical, const Settings& settings)
    : physical_(physical), default_stream_(std::make_shared<Stream>(ordinal, health_)),
      memory_(space, ordinal, settings.capacity, settings.poison) {}

Machine::Machine(Settings settings)
    : settings_(std::move(settings)), space_(std::max(1, deviceCount()), settings_.capacity) {
    for (int ordinal = 0; ordinal < deviceCount(); ++ordinal) {
        devices_.push_back(
            std::make_unique<Device>(space_, ordinal, settings_.devices[static_cast<size_t>(ordinal)], settings_));
    }
}

static constinit std::atomic<Machine*> the_machine{nullptr};
static constinit std::atomic<bool> forked_child{false};

static Machine* makeMachine() {
    auto made = std::make_unique<Machine>(Settings::fromEnvironment());
    pthread_atfork(nullptr, nullptr, [] { forked_child.store(true); });
    the_machine.store(made.get(), std::memory_order_release);
    // Never destroyed. Its workers run until the process ends and may be inside it when static destructors run, and
    // other libraries' destructors may still call the runtime.
    return made.release();
}

Machine& Machine::instance() {
    static Machine* const machine = makeMachine();
    return *machine;
}

Machine* Machine::existing() {
    return the_machine.load(std::memory_order_acquire);
}

bool inForkedChild() {
    return forked_child.load(std::memory_order_relaxed);
}

static thread_local int current_device = 0;

int currentDevice() {
    return current_device;
}

void setCurrentDevice(int ordinal) {
    current_device = ordinal;
}

XPUError_t Machine::findStream(const void* handle, std::shared_ptr<Stream>* stream) {
    if (handle == nullptr) {
        if (!hasDevice(currentDevice())) {
            return XPUERR_NODEV;
        }
        *stream = device(currentDevice()).defaultStream().shared_from_this();
        return XPU_SUCCESS;
    }
    *stream = streams_.find(handle);
    if (*stream != nullptr) {
        return XPU_SUCCESS;
    }
    return streams_.wasIssued(handle) ? XPUERR_USEAFCLOSE : XPUERR_INVALID_PARAM;
}

void* Machine::hostView(const void* pointer, uint64_t bytes) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const int owner = space_.deviceOf(address);
    if (owner < 0 || !device(owner).memory().contains(address, bytes)) {
        return nullptr;
    }
    return space_.hostAddress(address);
}

} // namespace xpuemu
