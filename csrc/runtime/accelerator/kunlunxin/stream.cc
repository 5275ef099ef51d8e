#include "runtime/accelerator/kunlunxin/stream.h"

#include "runtime/accelerator/kunlunxin/device.h"
#include "runtime/accelerator/kunlunxin/error.h"

#include <xpu/runtime.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace torch_fl::kunlunxin {

namespace {

// Every stream of createStream(), by device. Never destroyed: static destructors of other libraries may still
// wait.
class StreamRegistry {
public:
    void add(c10::DeviceIndex device, StreamHandle stream) {
        const std::lock_guard<std::mutex> lock(mutex_);
        streams_[device].push_back(stream);
    }

    std::vector<StreamHandle> streamsOf(c10::DeviceIndex device) {
        const std::lock_guard<std::mutex> lock(mutex_);
        return streams_[device];
    }

    static StreamRegistry& instance() {
        static StreamRegistry* const registry = std::make_unique<StreamRegistry>().release();
        return *registry;
    }

private:
    std::mutex mutex_;
    std::map<c10::DeviceIndex, std::vector<StreamHandle>> streams_;
};

} // namespace

StreamHandle createStream(c10::DeviceIndex device) {
    const ScopedDevice scope(device);
    XPUStream stream = nullptr;
    TORCH_FL_XPU_CHECK(xpu_stream_create(&stream), device, "xpu_stream_create()");
    StreamRegistry::instance().add(device, stream);
    return stream;
}

void waitStream(StreamHandle stream, c10::DeviceIndex device) {
    const ScopedDevice scope(device);
    TORCH_FL_XPU_CHECK(xpu_wait(stream), device, "xpu_wait(stream ", stream, ")");
}

void streamWaitEvent(StreamHandle stream, EventHandle event, c10::DeviceIndex device) {
    const ScopedDevice scope(device);
    TORCH_FL_XPU_CHECK(
        xpu_stream_wait_event(stream, event), device, "xpu_stream_wait_event(stream ", stream, ", event ", event, ")");
}

void synchronizeDevice(c10::DeviceIndex device) {
    waitStream(kDefaultStream, device);
    // A copy of the list: creating a stream must not wait for this one to finish.
    for (const StreamHandle stream : StreamRegistry::instance().streamsOf(device)) {
        waitStream(stream, device);
    }
}

} // namespace torch_fl::kunlunxin
