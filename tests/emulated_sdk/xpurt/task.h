// A piece of work in a stream's queue.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace xpuemu {

class Task {
public:
    // When a device has failed, kernels and copies are dropped, but events must still complete or waits would hang.
    enum class Kind { Work, Bookkeeping };

    Task(Kind kind, void (*run)(void*), void* argument, void (*destroy)(void*))
        : kind_(kind), run_(run), argument_(argument), destroy_(destroy) {}

    template <typename F>
    static Task of(Kind kind, F function) {
        auto owned = std::make_unique<F>(std::move(function));
        return Task(
            kind,
            [](void* argument) { (*static_cast<F*>(argument))(); },
            owned.release(),
            [](void* argument) { std::default_delete<F>()(static_cast<F*>(argument)); });
    }

    Task(Task&& other) noexcept
        : kind_(other.kind_), run_(other.run_), argument_(other.argument_),
          destroy_(std::exchange(other.destroy_, nullptr)) {}
    Task& operator=(Task&&) = delete;

    ~Task() {
        if (destroy_ != nullptr) {
            destroy_(argument_);
        }
    }

    Kind kind() const { return kind_; }
    void run() const { run_(argument_); }

    // Forgets the argument without destroying it.
    void disown() { destroy_ = nullptr; }

private:
    Kind kind_;
    void (*run_)(void*);
    void* argument_;
    void (*destroy_)(void*);
};

} // namespace xpuemu
