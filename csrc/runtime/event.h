#pragma once

#include "runtime/stream.h"

#include <c10/core/Device.h>

namespace torch_fl {

// Owns one libxpurt event. Empty until the first record(), which creates it on the stream's device.
class Event {
public:
    Event() = default;
    ~Event();
    Event(Event&& other) noexcept;
    Event& operator=(Event&& other) noexcept;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    // Marks this point of the stream. Recording again forgets the earlier point; the stream must be on the
    // same device.
    void record(const FlagosStream& stream);

    // Work enqueued on `stream` after this call waits for the recorded point. No effect on an event never
    // recorded.
    void block(const FlagosStream& stream) const;

    // True when the recorded point has passed or nothing was recorded.
    bool query() const;

    // Blocks the host until the recorded point has passed.
    void synchronize() const;

    c10::DeviceIndex device() const noexcept { return device_; }

private:
    void* handle_ = nullptr;
    c10::DeviceIndex device_ = -1;
};

} // namespace torch_fl
