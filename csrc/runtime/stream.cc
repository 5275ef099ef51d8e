#include "runtime/stream.h"

#include "runtime/accelerator/kunlunxin/device.h"
#include "runtime/accelerator/kunlunxin/stream.h"
#include "runtime/event.h"
#include "runtime/runtime.h"

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

namespace torch_fl {

namespace {

constexpr size_t kMaxDevices = size_t{1} + std::numeric_limits<c10::DeviceIndex>::max();

// Eight devices' pools together leave half of the 2^8 streams to the vendor's own libraries.
constexpr size_t kStreamsPerDevice = 16;

// Note [Stream ids]
// 0 is the default stream, as c10::Stream::DEFAULT has it. 1 to kStreamsPerDevice are the pool's streams of
// the device. Everything else is refused.
constexpr c10::StreamId kDefaultStreamId = 0;

class StreamPool {
public:
    // A slot is filled when its turn comes first, and never emptied.
    c10::StreamId next(c10::DeviceIndex device) {
        const size_t slot = turn_.fetch_add(1, std::memory_order_relaxed) % kStreamsPerDevice;
        if (handles_[slot].load(std::memory_order_acquire) == nullptr) {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (handles_[slot].load(std::memory_order_relaxed) == nullptr) {
                handles_[slot].store(kunlunxin::createStream(device), std::memory_order_release);
            }
        }
        return static_cast<c10::StreamId>(slot) + 1;
    }

    // nullptr for an id that next() has not given out.
    void* handle(c10::StreamId id) const {
        if (id < 1 || id > static_cast<c10::StreamId>(kStreamsPerDevice)) {
            return nullptr;
        }
        return handles_[static_cast<size_t>(id) - 1].load(std::memory_order_acquire);
    }

private:
    std::mutex mutex_;
    std::atomic<size_t> turn_{0};
    std::array<std::atomic<void*>, kStreamsPerDevice> handles_{};
};

// Never destroyed: threads may use their streams while static destructors run.
StreamPool& poolOf(c10::DeviceIndex device) {
    static auto* const pools = std::make_unique<std::array<StreamPool, kMaxDevices>>().release();
    return (*pools)[static_cast<size_t>(device)];
}

// Stream ids by device. Zero is the default stream, so a new thread starts right.
c10::StreamId& currentStreamId(c10::DeviceIndex device) {
    thread_local std::array<c10::StreamId, kMaxDevices> ids{};
    return ids[static_cast<size_t>(device)];
}

FlagosStream makeStream(c10::DeviceIndex device, c10::StreamId id) {
    void* const handle = id == kDefaultStreamId ? kunlunxin::kDefaultStream : poolOf(device).handle(id);
    return {c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id), handle};
}

} // namespace

FlagosStream currentStream(c10::DeviceIndex device) {
    requireUsable();
    device = kunlunxin::resolveDeviceIndex(device);
    return makeStream(device, currentStreamId(device));
}

FlagosStream defaultStream(c10::DeviceIndex device) {
    requireUsable();
    return makeStream(kunlunxin::resolveDeviceIndex(device), kDefaultStreamId);
}

FlagosStream streamFromPool(c10::DeviceIndex device) {
    requireUsable();
    device = kunlunxin::resolveDeviceIndex(device);
    return makeStream(device, poolOf(device).next(device));
}

c10::Stream exchangeCurrentStream(const c10::Stream& stream) {
    const FlagosStream checked = lookupStream(stream);
    c10::StreamId& current = currentStreamId(checked.stream.device_index());
    const c10::Stream previous(c10::Stream::UNSAFE, checked.stream.device(), current);
    current = checked.stream.id();
    return previous;
}

FlagosStream lookupStream(const c10::Stream& stream) {
    requireUsable();
    TORCH_CHECK(
        stream.device_type() == c10::DeviceType::PrivateUse1, "Expected a flagos stream, but got ", stream, ".");
    const FlagosStream found = makeStream(kunlunxin::resolveDeviceIndex(stream.device_index()), stream.id());
    TORCH_CHECK(
        found.handle != nullptr || stream.id() == kDefaultStreamId, "This process has not created ", stream, ".");
    return found;
}

bool queryStream(const c10::Stream& stream) {
    // The mark of a stream that is idle may need a moment to pass. Without this patience a query right after
    // a wait would now and then say "not complete".
    constexpr auto kPatience = std::chrono::microseconds(100);
    Event mark;
    mark.record(lookupStream(stream));
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!mark.query()) {
        if (std::chrono::steady_clock::now() >= deadline) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

void synchronizeStream(const c10::Stream& stream) {
    const FlagosStream found = lookupStream(stream);
    kunlunxin::waitStream(found.handle, found.stream.device_index());
}

void synchronizeDevice(c10::DeviceIndex device) {
    requireUsable();
    kunlunxin::synchronizeDevice(kunlunxin::resolveDeviceIndex(device));
}

} // namespace torch_fl
