#include "runtime/event.h"

#include "runtime/accelerator/kunlunxin/event.h"
#include "runtime/accelerator/kunlunxin/stream.h"
#include "runtime/runtime.h"

#include <c10/util/Exception.h>

#include <utility>

namespace torch_fl {

Event::~Event() {
    // The parent's event is not the forked child's to destroy.
    if (handle_ != nullptr && !isInBadFork()) {
        // Nothing depends on this call's success, and a destructor cannot raise: a device that fails here
        // fails the next call too, which says so.
        static_cast<void>(kunlunxin::destroyEvent(handle_));
    }
}

Event::Event(Event&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), device_(std::exchange(other.device_, -1)) {}

Event& Event::operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(device_, other.device_);
    return *this;
}

void Event::record(const FlagosStream& stream) {
    requireUsable();
    const c10::DeviceIndex device = stream.stream.device_index();
    if (handle_ == nullptr) {
        handle_ = kunlunxin::createEvent(device);
        device_ = device;
    }
    TORCH_CHECK(
        device_ == device,
        "Event device ",
        static_cast<int>(device_),
        " does not match recording stream's device ",
        static_cast<int>(device),
        ".");
    kunlunxin::recordEvent(handle_, stream.handle, device);
}

void Event::block(const FlagosStream& stream) const {
    if (handle_ != nullptr) {
        requireUsable();
        kunlunxin::streamWaitEvent(stream.handle, handle_, stream.stream.device_index());
    }
}

bool Event::query() const {
    if (handle_ == nullptr) {
        return true;
    }
    requireUsable();
    return kunlunxin::queryEvent(handle_, device_);
}

void Event::synchronize() const {
    if (handle_ != nullptr) {
        requireUsable();
        kunlunxin::waitEvent(handle_, device_);
    }
}

} // namespace torch_fl
