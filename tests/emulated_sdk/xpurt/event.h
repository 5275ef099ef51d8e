// A mark in a stream.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "xpu/defs.h"

#include "stream.h"

namespace xpuemu {

class Event {
public:
    // Marks the present end of `stream`. Waits that began earlier keep waiting for the mark they saw.
    XPUError_t record(Stream& stream);

    // Whether the last mark has been reached; true for an event never recorded.
    bool reached() const;

    // Blocks the calling thread until the last mark has been reached.
    void wait() const;

    // Makes work submitted to `stream` from now on wait for the last mark.
    XPUError_t blockStream(Stream& stream) const;

    // Health of the device whose stream was marked last, or null for an event never recorded.
    Health* health() const;

private:
    class Mark;
    std::shared_ptr<Mark> last() const;

    mutable std::mutex mutex_;
    std::shared_ptr<Mark> last_;
};

} // namespace xpuemu
