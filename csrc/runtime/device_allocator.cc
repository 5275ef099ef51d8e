#include "runtime/device_allocator.h"

#include "runtime/accelerator/kunlunxin/device.h"
#include "runtime/accelerator/kunlunxin/memory.h"
#include "runtime/accelerator/kunlunxin/stream.h"
#include "runtime/block_pool.h"
#include "runtime/copy.h"
#include "runtime/event.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace torch_fl {

namespace {

using c10::CachingAllocator::format_size;
using c10::CachingDeviceAllocator::DeviceStats;

c10::Device flagosDevice(c10::DeviceIndex index) {
    return {c10::DeviceType::PrivateUse1, index};
}

// One device's memory. A mutex of its own: devices do not wait for each other.
class DeviceMemory {
public:
    Block& allocate(size_t bytes, const FlagosStream& stream) {
        const std::lock_guard<std::mutex> lock(mutex_);
        releasePassed();
        Block* block = pool_.take(bytes, stream.stream);
        if (block == nullptr) {
            grow(bytes, stream.stream);
            block = pool_.take(bytes, stream.stream);
            TORCH_INTERNAL_ASSERT(block != nullptr);
        }
        report(block->pointer, static_cast<int64_t>(block->size), stream.stream.device());
        return *block;
    }

    void free(Block& block) {
        const std::lock_guard<std::mutex> lock(mutex_);
        pool_.retire(block);
        report(block.pointer, -static_cast<int64_t>(block.size), block.stream.device());
        if (block.used_on.empty()) {
            pool_.release(block);
            return;
        }
        const std::vector<c10::Stream> streams = std::exchange(block.used_on, {});
        // Counted first: should an event fail to be recorded, the block is never reused.
        block.pending_events = streams.size();
        for (const c10::Stream& stream : streams) {
            Event event;
            event.record(lookupStream(stream));
            pending_[stream].push_back({std::move(event), &block});
        }
    }

    void recordUse(Block& block, const c10::Stream& stream) {
        const std::lock_guard<std::mutex> lock(mutex_);
        auto& streams = block.used_on;
        if (stream != block.stream && std::find(streams.begin(), streams.end(), stream) == streams.end()) {
            streams.push_back(stream);
        }
    }

    void emptyCache(c10::DeviceIndex device) {
        const std::lock_guard<std::mutex> lock(mutex_);
        releaseCache(device);
    }

    bool contains(const void* pointer) {
        const std::lock_guard<std::mutex> lock(mutex_);
        return pool_.contains(pointer);
    }

    DeviceStats stats() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return pool_.stats();
    }

    void resetAccumulatedStats() {
        const std::lock_guard<std::mutex> lock(mutex_);
        DeviceStats& stats = pool_.stats();
        forEachStat([](auto& stat) { stat.reset_accumulated(); });
        stats.oversize_allocations.reset_accumulated();
        stats.oversize_segments.reset_accumulated();
        stats.num_alloc_retries = 0;
        stats.num_ooms = 0;
        stats.num_sync_all_streams = 0;
        stats.num_device_alloc = 0;
        stats.num_device_free = 0;
    }

    void resetPeakStats() {
        const std::lock_guard<std::mutex> lock(mutex_);
        forEachStat([](auto& stat) { stat.reset_peak(); });
        pool_.stats().oversize_allocations.reset_peak();
        pool_.stats().oversize_segments.reset_peak();
    }

private:
    struct PendingRelease {
        Event event;
        Block* block;
    };

    template <typename Function>
    void forEachStat(Function function) {
        DeviceStats& stats = pool_.stats();
        for (auto* array :
             {&stats.allocation,
              &stats.segment,
              &stats.active,
              &stats.inactive_split,
              &stats.allocated_bytes,
              &stats.reserved_bytes,
              &stats.active_bytes,
              &stats.inactive_split_bytes,
              &stats.requested_bytes}) {
            std::for_each(array->begin(), array->end(), function);
        }
    }

    void report(void* pointer, int64_t bytes, c10::Device device) {
        if (c10::memoryProfilingEnabled()) {
            c10::reportMemoryUsageToProfiler(pointer, bytes, pool_.allocatedBytes(), pool_.reservedBytes(), device);
        }
    }

    // Blocks whose last event has passed go back to their free lists. Events of one stream pass in order.
    void releasePassed() {
        for (auto& [stream, queue] : pending_) {
            while (!queue.empty() && queue.front().event.query()) {
                finishFront(queue);
            }
        }
    }

    void finishFront(std::deque<PendingRelease>& queue) {
        Block& block = *queue.front().block;
        queue.pop_front();
        if (--block.pending_events == 0) {
            pool_.release(block);
        }
    }

    // Adds a segment that can hold the request, or raises OutOfMemoryError.
    void grow(size_t bytes, const c10::Stream& stream) {
        const c10::DeviceIndex device = stream.device_index();
        const size_t block_size = BlockPool::blockSize(bytes);
        const bool small = block_size <= c10::CachingAllocator::kSmallSize;
        size_t segment = BlockPool::segmentSize(block_size);
        void* pointer = kunlunxin::tryAllocate(segment, device);
        if (pointer == nullptr) {
            ++pool_.stats().num_alloc_retries;
            releaseCache(device);
            pointer = kunlunxin::tryAllocate(segment, device);
        }
        if (pointer == nullptr && segment != block_size) {
            // Nearly full: a segment for this request alone may still fit.
            segment = block_size;
            pointer = kunlunxin::tryAllocate(segment, device);
        }
        if (pointer == nullptr) {
            raiseOutOfMemory(bytes, segment, stream.device());
        }
        pool_.addSegment(pointer, segment, stream, small);
    }

    // Gives every segment that holds no block in use back to the vendor. Whether xpu_free waits for work that
    // still uses the memory is not documented, so all streams of the device are waited for first.
    void releaseCache(c10::DeviceIndex device) {
        for (auto& [stream, queue] : pending_) {
            while (!queue.empty()) {
                queue.front().event.synchronize();
                finishFront(queue);
            }
        }
        const std::vector<Block*> idle = pool_.idleSegments();
        if (idle.empty()) {
            return;
        }
        ++pool_.stats().num_sync_all_streams;
        kunlunxin::synchronizeDevice(device);
        for (Block* const block : idle) {
            void* const pointer = block->pointer;
            pool_.dropSegment(*block);
            kunlunxin::free(pointer, device);
        }
    }

    [[noreturn]] void raiseOutOfMemory(size_t bytes, size_t segment, c10::Device device) {
        ++pool_.stats().num_ooms;
        const size_t allocated = pool_.allocatedBytes();
        const size_t reserved = pool_.reservedBytes();
        c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), allocated, reserved, device);
        TORCH_CHECK_WITH(
            OutOfMemoryError,
            false,
            "flagos out of memory. Tried to allocate ",
            format_size(bytes),
            ". Device ",
            static_cast<int>(device.index()),
            " has a total capacity of ",
            format_size(kunlunxin::totalMemory(device.index())),
            ", of which this process has ",
            format_size(allocated),
            " allocated by PyTorch and ",
            format_size(reserved - allocated),
            " reserved by PyTorch but unallocated (",
            format_size(reserved),
            " in all). ",
            kunlunxin::describeOutOfMemory(segment, device.index()));
    }

    std::mutex mutex_;
    BlockPool pool_;
    // By the stream that the events were recorded on.
    std::unordered_map<c10::Stream, std::deque<PendingRelease>> pending_;
};

void releaseBlock(void* context);

class DeviceAllocator final : public c10::DeviceAllocator {
public:
    c10::DataPtr allocate(size_t bytes) override {
        requireUsable();
        const FlagosStream stream = currentStream();
        if (bytes == 0) {
            return {nullptr, nullptr, &releaseBlock, stream.stream.device()};
        }
        Block& block = memoryOf(stream.stream.device_index()).allocate(bytes, stream);
        return {block.pointer, &block, &releaseBlock, stream.stream.device()};
    }

    c10::DeleterFnPtr raw_deleter() const override {
        // The deleter needs the block, not the address: xpu_memcpy_peer takes a device beside each address,
        // so an address alone is not known to name one.
        return nullptr;
    }

    void copy_data(void* destination, const void* source, size_t bytes) const override {
        const c10::DeviceIndex to = deviceOfPointer(destination).index();
        const c10::DeviceIndex from = deviceOfPointer(source).index();
        if (to == from) {
            copyDeviceToDevice(destination, source, to, bytes);
        } else {
            copyPeer(destination, to, source, from, bytes);
        }
    }

    bool initialized() override { return isInitialized(); }

    void emptyCache(c10::MempoolId_t /*pool: there is one*/) override {
        requireUsable();
        for (c10::DeviceIndex device = 0; device < kunlunxin::deviceCount(); ++device) {
            memoryOf(device).emptyCache(device);
        }
    }

    void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
        // Memory of another owner (a tensor made from a foreign pointer) is not ours to keep.
        if (pointer.get() == nullptr || pointer.get_deleter() != &releaseBlock) {
            return;
        }
        auto& block = *static_cast<Block*>(pointer.get_context());
        memoryOf(block.stream.device_index()).recordUse(block, lookupStream(stream).stream);
    }

    DeviceStats getDeviceStats(c10::DeviceIndex device) override { return checkedMemoryOf(device).stats(); }

    void resetAccumulatedStats(c10::DeviceIndex device) override { checkedMemoryOf(device).resetAccumulatedStats(); }

    void resetPeakStats(c10::DeviceIndex device) override { checkedMemoryOf(device).resetPeakStats(); }

    std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
        kunlunxin::checkDeviceIndex(device);
        TORCH_CHECK_NOT_IMPLEMENTED(
            false,
            "free memory of a flagos device is not available: the vendor's runtime has no query for it. The "
            "total is torch.flagos.get_device_properties().total_memory; what this process holds is "
            "torch.flagos.memory_reserved()");
    }

    void free(Block& block) { memoryOf(block.stream.device_index()).free(block); }

    c10::Device deviceOf(const void* pointer) {
        for (c10::DeviceIndex device = 0; device < kunlunxin::deviceCount(); ++device) {
            if (memoryOf(device).contains(pointer)) {
                return flagosDevice(device);
            }
        }
        TORCH_CHECK(false, "the address ", pointer, " is not in memory of a flagos device");
    }

private:
    static constexpr size_t kMaxDevices = size_t{1} + std::numeric_limits<c10::DeviceIndex>::max();

    DeviceMemory& memoryOf(c10::DeviceIndex device) { return memory_[static_cast<size_t>(device)]; }

    DeviceMemory& checkedMemoryOf(c10::DeviceIndex device) {
        kunlunxin::checkDeviceIndex(device);
        return memoryOf(device);
    }

    std::array<DeviceMemory, kMaxDevices> memory_;
};

// Never destroyed: tensors may outlive the static destructors of this library.
DeviceAllocator& instance() {
    static DeviceAllocator* const allocator = std::make_unique<DeviceAllocator>().release();
    return *allocator;
}

void releaseBlock(void* context) {
    if (isInBadFork()) {
        return;
    }
    try {
        instance().free(*static_cast<Block*>(context));
    } catch (const std::exception&) {
        // Called from destructors. A device on which no event can be recorded is broken: its streams might
        // still use the block, so it is given up rather than reused, and the next call to the device raises
        // the failure.
        return;
    }
}

} // namespace

c10::DeviceAllocator& deviceAllocator() {
    return instance();
}

c10::Device deviceOfPointer(const void* pointer) {
    return instance().deviceOf(pointer);
}

} // namespace torch_fl
