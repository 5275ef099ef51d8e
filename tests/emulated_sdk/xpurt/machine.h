// Everything the runtime of one process knows.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "xpu/defs.h"

#include "address_space.h"
#include "device_memory.h"
#include "event.h"
#include "health.h"
#include "host_memory.h"
#include "stream.h"

namespace xpuemu {

// What the environment asks for, read once, when the runtime is first used.
struct Settings {
    std::vector<int> devices;      // physical numbers, in this process's order
    uint64_t capacity;             // bytes per device
    std::optional<uint8_t> poison; // value of fresh device memory
    uint64_t pinned_copy_limit;    // bytes; a longer asynchronous copy of pinned memory fails with -999. 0: none
    uint64_t failing_launch;       // number of the kernel launch, from 1, that fails. 0: none

    static Settings fromEnvironment();
};

class Device {
public:
    Device(AddressSpace& space, int ordinal, int physical, const Settings& settings);

    int physical() const { return physical_; }
    Health& health() { return health_; }
    Stream& defaultStream() { return *default_stream_; }
    DeviceMemory& memory() { return memory_; }

private:
    const int physical_;
    Health health_;
    std::shared_ptr<Stream> default_stream_;
    DeviceMemory memory_;
};

// Objects known to clients by a handle. A handle is a number that is never used again, so a stale one is recognised.
template <typename T>
class HandleTable {
public:
    void* add(std::shared_ptr<T> object) {
        const std::lock_guard lock(mutex_);
        const uintptr_t handle = next_++ * kStep;
        objects_.emplace(handle, std::move(object));
        return reinterpret_cast<void*>(handle);
    }

    std::shared_ptr<T> find(const void* handle) const {
        const std::shared_lock lock(mutex_);
        const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
        return found == objects_.end() ? nullptr : found->second;
    }

    std::shared_ptr<T> remove(const void* handle) {
        const std::lock_guard lock(mutex_);
        auto node = objects_.extract(reinterpret_cast<uintptr_t>(handle));
        return node.empty() ? nullptr : std::move(node.mapped());
    }

    // Whether the handle once was valid.
    bool wasIssued(const void* handle) const {
        const auto value = reinterpret_cast<uintptr_t>(handle);
        const std::shared_lock lock(mutex_);
        return value != 0 && value % kStep == 0 && value / kStep < next_;
    }

    size_t size() const {
        const std::shared_lock lock(mutex_);
        return objects_.size();
    }

private:
    // Handles look like small aligned addresses: following one dies at once.
    static constexpr uintptr_t kStep = 16;

    mutable std::shared_mutex mutex_;
    uintptr_t next_ = 1;
    std::unordered_map<uintptr_t, std::shared_ptr<T>> objects_;
};

class Machine {
public:
    explicit Machine(Settings settings);

    // The machine of this process, made at the first call. Throws std::bad_alloc when address space is refused.
    static Machine& instance();

    // The machine if it has been made already, without making it.
    static Machine* existing();

    const Settings& settings() const { return settings_; }
    int deviceCount() const { return static_cast<int>(settings_.devices.size()); }
    bool hasDevice(int ordinal) const { return ordinal >= 0 && ordinal < deviceCount(); }
    Device& device(int ordinal) { return *devices_[static_cast<size_t>(ordinal)]; }

    const AddressSpace& space() const { return space_; }
    HostMemory& hostMemory() { return host_memory_; }
    HandleTable<Stream>& streams() { return streams_; }
    HandleTable<Event>& events() { return events_; }

    // Stream behind a handle; null is the default stream of the calling thread's device. On failure the error is
    // XPUERR_NODEV, XPUERR_USEAFCLOSE or XPUERR_INVALID_PARAM.
    XPUError_t findStream(const void* handle, std::shared_ptr<Stream>* stream);

    // Host side of device memory, or null unless the range lies in one live allocation. Lock-free.
    void* hostView(const void* pointer, uint64_t bytes);

private:
    const Settings settings_;
    AddressSpace space_;
    std::vector<std::unique_ptr<Device>> devices_;
    HostMemory host_memory_;
    HandleTable<Stream> streams_;
    HandleTable<Event> events_;
};

// The calling thread's current device.
int currentDevice();
void setCurrentDevice(int ordinal);

// Whether this process was forked from one that had used the runtime already. It has no workers and no device memory.
bool inForkedChild();

} // namespace xpuemu
