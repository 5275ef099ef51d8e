// Entry points about streams and events.

#include "xpu/runtime.h"

#include "common/export.h"
#include "entry.h"
#include "statistics.h"

using namespace xpuemu;

constexpr size_t kMaxStreams = 256; // documented for the runtime, for a process

// As entry(), for calls that need an event by its handle.
template <typename F>
static int entryOnEvent(XPUEvent handle, F body) {
    return entry([&] {
        Machine& machine = Machine::instance();
        const std::shared_ptr<Event> event = machine.events().find(handle);
        return event == nullptr ? XPUERR_INVALID_PARAM : body(machine, *event);
    });
}

// What a wait for `event` ends with.
static XPUError_t collect(const Event& event) {
    Health* health = event.health();
    return health == nullptr ? XPU_SUCCESS : health->collect();
}

extern "C" {

XPUEMU_EXPORT int xpu_stream_create(XPUStream* pstream) {
    return entryOnDevice([&](Machine& machine, Device& device) {
        if (pstream == nullptr) {
            return XPUERR_INVALID_PARAM;
        }
        if (machine.streams().size() >= kMaxStreams) {
            return XPUERR_BUSY;
        }
        *pstream = machine.streams().add(std::make_shared<Stream>(currentDevice(), device.health()));
        ++statistics().streams;
        return XPU_SUCCESS;
    });
}

// Returns at once; work in the queue is still performed.
XPUEMU_EXPORT int xpu_stream_destroy(XPUStream handle) {
    return entry([&] {
        Machine& machine = Machine::instance();
        const std::shared_ptr<Stream> stream = machine.streams().remove(handle);
        if (stream == nullptr) {
            return machine.streams().wasIssued(handle) ? XPUERR_USEAFCLOSE : XPUERR_INVALID_PARAM;
        }
        stream->close();
        --statistics().streams;
        return XPU_SUCCESS;
    });
}

XPUEMU_EXPORT int xpu_stream_wait_event(XPUStream stream_handle, XPUEvent event_handle) {
    return entryOnEvent(event_handle, [&](Machine& machine, const Event& event) {
        std::shared_ptr<Stream> stream;
        const XPUError_t error = machine.findStream(stream_handle, &stream);
        return error != XPU_SUCCESS ? error : event.blockStream(*stream);
    });
}

XPUEMU_EXPORT int xpu_event_create(XPUEvent* pevent) {
    return entryOnDevice([&](Machine& machine, Device&) {
        if (pevent == nullptr) {
            return XPUERR_INVALID_PARAM;
        }
        *pevent = machine.events().add(std::make_shared<Event>());
        ++statistics().events;
        return XPU_SUCCESS;
    });
}

// Streams that were made to wait for the event keep waiting for its mark.
XPUEMU_EXPORT int xpu_event_destroy(XPUEvent handle) {
    return entry([&] {
        if (Machine::instance().events().remove(handle) == nullptr) {
            return XPUERR_INVALID_PARAM;
        }
        --statistics().events;
        return XPU_SUCCESS;
    });
}

XPUEMU_EXPORT int xpu_event_record(XPUEvent event_handle, XPUStream stream_handle) {
    return entryOnEvent(event_handle, [&](Machine& machine, Event& event) {
        std::shared_ptr<Stream> stream;
        const XPUError_t error = machine.findStream(stream_handle, &stream);
        return error != XPU_SUCCESS ? error : event.record(*stream);
    });
}

XPUEMU_EXPORT int xpu_event_wait(XPUEvent handle) {
    return entryOnEvent(handle, [](Machine&, const Event& event) {
        event.wait();
        return collect(event);
    });
}

// The answer for an event that has not been reached is our inference: -XPUERR_BUSY.
XPUEMU_EXPORT int xpu_event_query(XPUEvent handle) {
    return entryOnEvent(
        handle, [](Machine&, const Event& event) { return event.reached() ? collect(event) : XPUERR_BUSY; });
}

XPUEMU_EXPORT int xpu_wait(XPUStream handle) {
    return entryOnStream(handle, [](Machine&, Stream& stream) {
        stream.wait();
        return stream.health().collect();
    });
}

} // extern "C"
