#include "stream.h"

#include <csignal>
#include <new>
#include <system_error>
#include <thread>

#include <pthread.h>

namespace xpuemu {

// A host that submits faster than its worker performs is held back here, as by a device's launch queue.
constexpr size_t kQueueLimit = 4096;

// How long a thread polls before it sleeps: a few microseconds, to save the wake-up between neighbouring small
// operations. More would take a core away from the other side on a small machine.
constexpr int kSpins = 200;

static inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

static thread_local Stream* worker_of = nullptr;

Stream* Stream::current() {
    return worker_of;
}

// Starts a detached thread with every signal blocked: signals are the host program's business.
template <typename F>
static XPUError_t startWorker(F body) {
    sigset_t all;
    sigset_t previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    XPUError_t error = XPU_SUCCESS;
    try {
        std::thread(std::move(body)).detach();
    } catch (const std::system_error&) {
        error = XPUERR_NOCPUMEM;
    }
    pthread_sigmask(SIG_SETMASK, &previous, nullptr);
    return error;
}

XPUError_t Stream::submit(Task&& task) {
    std::unique_lock lock(mutex_);
    taken_.wait(lock, [this] { return queue_.size() < kQueueLimit || closed_; });
    if (closed_) {
        return XPUERR_USEAFCLOSE;
    }
    if (!started_) {
        const XPUError_t error = startWorker([self = shared_from_this()] { self->work(); });
        if (error != XPU_SUCCESS) {
            return error;
        }
        started_ = true;
    }
    try {
        queue_.push_back(std::move(task));
    } catch (const std::bad_alloc&) {
        return XPUERR_NOCPUMEM;
    }
    ++submitted_;
    has_work_.store(true, std::memory_order_release);
    const bool wake = asleep_;
    lock.unlock();
    if (wake) {
        arrived_.notify_one();
    }
    return XPU_SUCCESS;
}

void Stream::wait() {
    std::unique_lock lock(mutex_);
    const uint64_t last = submitted_;
    if (completed_.load() >= last) {
        return;
    }
    lock.unlock();
    for (int spin = 0; spin < kSpins; ++spin) {
        if (completed_.load(std::memory_order_acquire) >= last) {
            return;
        }
        pause();
    }
    ++waiters_;
    lock.lock();
    done_.wait(lock, [&] { return completed_.load() >= last; });
    lock.unlock();
    --waiters_;
}

void Stream::close() {
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
    }
    arrived_.notify_one();
    taken_.notify_all();
}

bool Stream::take(std::vector<Task>& batch) {
    for (int spin = 0; spin < kSpins && !has_work_.load(std::memory_order_acquire); ++spin) {
        pause();
    }
    std::unique_lock lock(mutex_);
    asleep_ = true;
    arrived_.wait(lock, [this] { return !queue_.empty() || closed_; });
    asleep_ = false;
    const bool was_full = queue_.size() >= kQueueLimit;
    batch.swap(queue_);
    has_work_.store(false, std::memory_order_relaxed);
    lock.unlock();
    if (was_full) {
        taken_.notify_all();
    }
    return !batch.empty();
}

void Stream::complete() {
    ++completed_;
    // A waiter first counts itself and then looks at completed_ under the lock; both are sequentially consistent, so
    // either it sees this completion or we see the waiter.
    if (waiters_.load() != 0) {
        {
            const std::lock_guard lock(mutex_);
        }
        done_.notify_all();
    }
}

void Stream::work() {
    worker_of = this;
    pthread_setname_np(pthread_self(), "xpu-stream");
    std::vector<Task> batch;
    while (take(batch)) {
        for (Task& task : batch) {
            {
                const Task running(std::move(task)); // its argument is destroyed before it counts as done
                if (health_.good() || running.kind() == Task::Kind::Bookkeeping) {
                    try {
                        running.run();
                    } catch (...) { // a kernel's failure is the device's, never the process's
                        health_.fail();
                    }
                }
            }
            complete();
        }
        batch.clear();
    }
}

} // namespace xpuemu
