#include "runtime/host_allocator.h"

#include "runtime/accelerator/kunlunxin/memory.h"
#include "runtime/event.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace torch_fl {

namespace {

using HostBlock = at::HostBlock<c10::Stream>;

class HostAllocatorImpl final : public at::CachingHostAllocatorImpl<c10::Stream, Event> {
private:
    void allocate_host_memory(size_t size, void** pointer) override {
        requireUsable();
        *pointer = kunlunxin::hostAllocate(size);
    }

    void free_block(HostBlock* block) override { kunlunxin::hostFree(block->ptr_); }

    void record_stream(std::optional<std::vector<Event>>& events, c10::Stream stream) override {
        TORCH_INTERNAL_ASSERT(events.has_value()); // c10 makes the list before it asks for a record
        Event event;
        event.record(lookupStream(stream));
        events->push_back(std::move(event));
    }

    bool query_event(Event& event) override { return event.query(); }

    c10::Stream get_current_stream() const override { return currentStream().stream; }

    bool stream_is_capturing(c10::Stream /*stream*/) const override { return false; }
};

void releaseHostBlock(void* context);

using HostAllocatorInterface = at::CachingHostAllocatorInterface<HostAllocatorImpl, releaseHostBlock>;

// Never destroyed: pinned tensors may outlive the static destructors of this library.
HostAllocatorInterface& instance() {
    static HostAllocatorInterface* const allocator = std::make_unique<HostAllocatorInterface>().release();
    return *allocator;
}

void releaseHostBlock(void* context) {
    if (isInBadFork()) {
        return;
    }
    try {
        instance().free(context);
    } catch (const std::exception&) {
        // Called from destructors. A device on which no event can be recorded is broken: its streams might
        // still use the block, so it is given up rather than reused, and the next call to the device raises
        // the failure.
        return;
    }
}

} // namespace

at::HostAllocator& hostAllocator() {
    return instance();
}

} // namespace torch_fl
