// The execution context that every operator takes first: which device and which stream it runs on.
#pragma once

#include <cstdint>

#include "xpu/runtime.h"

namespace xpytorch {
namespace xpu {
namespace api {

enum Error_t {
    SUCCESS = 0,
    INVALID_PARAM = 1,
    RUNTIME_ERROR = 2,
    NO_ENOUGH_WORKSPACE = 3,
    NOT_IMPLEMENT = 4,
};

// kXPU3 is the P800's generation.
enum DeviceType {
    kCPU = 0,
    kXPU1 = 1,
    kXPU2 = 2,
    kXPU3 = 3,
};

class DeviceInfo {
public:
    explicit DeviceInfo(DeviceType type) : type_(type) {}
    DeviceType type() const { return type_; }

private:
    DeviceType type_;
};

class Context {
public:
    explicit Context(DeviceInfo device) : device_(device) {}
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    const DeviceInfo& dev() const { return device_; }
    int64_t ncluster() const;
    void set_stream(XPUStream stream) { xpu_stream = stream; }

    XPUStream xpu_stream = nullptr; // null: the default stream of the calling thread's current device

private:
    DeviceInfo device_;
};

// A context for the calling thread's current device, or null when there is no device.
Context* create_context();
void destroy_context(Context* context);

} // namespace api
} // namespace xpu
} // namespace xpytorch

namespace xdnn = xpytorch::xpu::api;
