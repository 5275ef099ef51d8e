// A queue of work with a thread that performs it in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "xpu/defs.h"

#include "health.h"
#include "task.h"

namespace xpuemu {

class Stream : public std::enable_shared_from_this<Stream> {
public:
    Stream(int device, Health& health) : device_(device), health_(health) {}
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    int device() const { return device_; }
    Health& health() { return health_; }

    // Appends `task`; blocks while the queue is full. XPUERR_USEAFCLOSE after close(), XPUERR_NOCPUMEM when no thread
    // can be started; then the task is left as it was.
    XPUError_t submit(Task&& task);

    // Blocks until everything submitted before the call is done. Says nothing about success.
    void wait();

    // Refuses further work. What is queued is still performed; then the thread ends.
    void close();

    // The stream whose worker the calling thread is, or null.
    static Stream* current();

private:
    void work();
    bool take(std::vector<Task>& batch);
    void complete();

    const int device_;
    Health& health_;

    std::mutex mutex_;
    std::condition_variable arrived_;
    std::condition_variable taken_;
    std::condition_variable done_;
    std::vector<Task> queue_;
    bool started_ = false;
    bool asleep_ = false;
    bool closed_ = false;
    uint64_t submitted_ = 0;

    std::atomic<bool> has_work_{false};
    std::atomic<uint64_t> completed_{0};
    std::atomic<int> waiters_{0};
};

} // namespace xpuemu
