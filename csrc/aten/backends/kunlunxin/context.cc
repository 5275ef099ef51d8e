#include "aten/backends/kunlunxin/context.h"

#include <c10/util/Exception.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace torch_fl::kunlunxin {

namespace {

using xdnn_pytorch::Context;

struct DestroyContext {
    void operator()(Context* context) const noexcept { xdnn::destroy_context(context); }
};

// The device is part of the key because all default streams have the same (null) handle.
struct Lease {
    c10::DeviceIndex device;
    void* stream;
    std::unique_ptr<Context, DestroyContext> context;

    bool isFor(const FlagosStream& wanted) const {
        return stream == wanted.handle && device == wanted.stream.device_index();
    }
};

class IdleContexts {
public:
    std::unique_ptr<Context, DestroyContext> take(const FlagosStream& wanted) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (auto lease = leases_.begin(); lease != leases_.end(); ++lease) {
            if (lease->isFor(wanted)) {
                auto context = std::move(lease->context);
                leases_.erase(lease);
                return context;
            }
        }
        return nullptr;
    }

    void give(std::vector<Lease> leases) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (Lease& lease : leases) {
            leases_.push_back(std::move(lease));
        }
    }

private:
    std::mutex mutex_;
    std::vector<Lease> leases_;
};

// Never destroyed: at exit the vendor's libraries may be gone before us.
IdleContexts& idleContexts() {
    static auto* const idle = std::make_unique<IdleContexts>().release();
    return *idle;
}

class ThreadContexts {
public:
    ThreadContexts() = default;
    ~ThreadContexts() { idleContexts().give(std::move(leases_)); }
    ThreadContexts(const ThreadContexts&) = delete;
    ThreadContexts& operator=(const ThreadContexts&) = delete;
    ThreadContexts(ThreadContexts&&) = delete;
    ThreadContexts& operator=(ThreadContexts&&) = delete;

    Context* get(const FlagosStream& wanted) {
        for (const Lease& lease : leases_) {
            if (lease.isFor(wanted)) {
                return lease.context.get();
            }
        }
        leases_.push_back({wanted.stream.device_index(), wanted.handle, obtain(wanted)});
        return leases_.back().context.get();
    }

private:
    static std::unique_ptr<Context, DestroyContext> obtain(const FlagosStream& wanted) {
        if (auto idle = idleContexts().take(wanted)) {
            return idle;
        }
        std::unique_ptr<Context, DestroyContext> made(xdnn::create_context());
        TORCH_CHECK(
            made != nullptr,
            "xdnn_pytorch: create_context() on device ",
            static_cast<int>(wanted.stream.device_index()),
            ": no context was returned");
        made->set_stream(wanted.handle);
        return made;
    }

    std::vector<Lease> leases_;
};

} // namespace

xdnn_pytorch::Context* contextFor(const FlagosStream& stream) {
    thread_local ThreadContexts contexts;
    return contexts.get(stream);
}

} // namespace torch_fl::kunlunxin
