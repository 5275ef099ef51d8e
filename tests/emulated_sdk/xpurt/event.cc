#include "event.h"

namespace xpuemu {

class Event::Mark {
public:
    explicit Mark(Health& health) : health_(health) {}

    void reach() {
        {
            const std::lock_guard lock(mutex_);
            reached_ = true;
        }
        progressed_.notify_all();
    }

    void wait() {
        std::unique_lock lock(mutex_);
        progressed_.wait(lock, [this] { return reached_; });
    }

    bool reached() {
        const std::lock_guard lock(mutex_);
        return reached_;
    }

    Health& health() { return health_; }

private:
    Health& health_;
    std::mutex mutex_;
    std::condition_variable progressed_;
    bool reached_ = false;
};

std::shared_ptr<Event::Mark> Event::last() const {
    const std::lock_guard lock(mutex_);
    return last_;
}

XPUError_t Event::record(Stream& stream) {
    auto mark = std::make_shared<Mark>(stream.health());
    const XPUError_t error = stream.submit(Task::of(Task::Kind::Bookkeeping, [mark] { mark->reach(); }));
    if (error == XPU_SUCCESS) {
        const std::lock_guard lock(mutex_);
        last_ = std::move(mark);
    }
    return error;
}

bool Event::reached() const {
    const auto mark = last();
    return mark == nullptr || mark->reached();
}

void Event::wait() const {
    if (const auto mark = last()) {
        mark->wait();
    }
}

XPUError_t Event::blockStream(Stream& stream) const {
    const auto mark = last();
    if (mark == nullptr || mark->reached()) {
        return XPU_SUCCESS;
    }
    return stream.submit(Task::of(Task::Kind::Bookkeeping, [mark] { mark->wait(); }));
}

Health* Event::health() const {
    const auto mark = last();
    return mark == nullptr ? nullptr : &mark->health();
}

} // namespace xpuemu
