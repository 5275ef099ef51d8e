#include "runtime/accelerator/kunlunxin/event.h"

#include "runtime/accelerator/kunlunxin/device.h"
#include "runtime/accelerator/kunlunxin/error.h"

#include <xpu/runtime.h>

namespace torch_fl::kunlunxin {

EventHandle createEvent(c10::DeviceIndex device) {
    const ScopedDevice scope(device);
    XPUEvent event = nullptr;
    TORCH_FL_XPU_CHECK(xpu_event_create(&event), device, "xpu_event_create()");
    return event;
}

int destroyEvent(EventHandle event) noexcept {
    return xpu_event_destroy(event);
}

void recordEvent(EventHandle event, StreamHandle stream, c10::DeviceIndex device) {
    const ScopedDevice scope(device);
    TORCH_FL_XPU_CHECK(
        xpu_event_record(event, stream), device, "xpu_event_record(event ", event, ", stream ", stream, ")");
}

void waitEvent(EventHandle event, c10::DeviceIndex device) {
    const ScopedDevice scope(device);
    TORCH_FL_XPU_CHECK(xpu_event_wait(event), device, "xpu_event_wait(event ", event, ")");
}

bool queryEvent(EventHandle event, c10::DeviceIndex device) {
    const ScopedDevice scope(device);
    const int returned = xpu_event_query(event);
    if (isDocumentedFailure(returned)) {
        TORCH_FL_XPU_CHECK(returned, device, "xpu_event_query(event ", event, ")");
    }
    return returned == kSuccess;
}

} // namespace torch_fl::kunlunxin
