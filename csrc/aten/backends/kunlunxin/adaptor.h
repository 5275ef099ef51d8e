#pragma once

#include "runtime/accelerator/kunlunxin/device.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <xdnn_pytorch/xdnn_pytorch.h>

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// The one place where PyTorch's values become the operator library's, and where its answers become ours.
namespace torch_fl::kunlunxin {

// UnknownScalarType for dtypes that the library does not have.
xdnn_pytorch::ScalarType vendorType(at::ScalarType dtype);

inline bool hasVendorType(at::ScalarType dtype) {
    return vendorType(dtype) != xdnn_pytorch::ScalarType::UnknownScalarType;
}

// float64 moves and converts, but the library's own clients never compute in it: they convert to float32
// first, which here would change results. Such calls go to the CPU.
inline bool computes(at::ScalarType dtype) {
    return dtype != at::kDouble && hasVendorType(dtype);
}

inline bool computesFloat(at::ScalarType dtype) {
    return dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16;
}

// Note [Numbers for the library]
// The library's Scalar holds an int64 or a float, and kernels expect the kind of the dtype they compute in.
// `value` as such a number for computing in `dtype`, integral or floating; nothing in between is lost that
// CPU kernels, which compute float32 and less in float, would keep.
at::Scalar numberFor(at::ScalarType dtype, const at::Scalar& value);

// The value of a 0-dim CPU tensor that takes part in an operation as a number.
at::Scalar numberOf(const at::Tensor& cpu_scalar);

// A stand-in for `Tensor?` in calls: an undefined tensor is the library's absent tensor.
using MaybeTensor = std::optional<at::Tensor>;

// One call's view of its arguments. Vectors in the library's tensors keep their memory from call to call, so
// that a small operator does not pay for six allocations.
inline constexpr size_t kMaxTensors = 10;
std::array<xdnn_pytorch::Tensor, kMaxTensors>& scratchTensors();
xdnn_pytorch::Tensor& assign(xdnn_pytorch::Tensor& target, const at::Tensor& source);

// Conversions of one argument; tensors are handled apart because they use the scratch tensors.
xdnn_pytorch::Scalar toVendor(const at::Scalar& value);
xdnn_pytorch::ScalarType toVendor(at::ScalarType dtype);
std::vector<int64_t> toVendor(at::IntArrayRef values);
inline int64_t toVendor(int64_t value) {
    return value;
}
inline bool toVendor(bool value) {
    return value;
}

// How an argument reads in an error message: "float32[8, 8]", "2.5", "[0, 1]".
std::string describe(const at::Tensor& tensor);
std::string describe(const MaybeTensor& tensor);
std::string describe(const at::Scalar& value);
std::string describe(at::ScalarType dtype);
std::string describe(at::IntArrayRef values);
std::string describe(int64_t value);
std::string describe(bool value);

// Makes a device current for a call and holds the calling thread's context for its current stream.
class LaunchScope {
public:
    explicit LaunchScope(c10::DeviceIndex device);

    xdnn_pytorch::Context* context() const noexcept { return context_; }

private:
    ScopedDevice device_;
    xdnn_pytorch::Context* context_;
};

// Codes that every function of the library returns.
inline constexpr int kLaunched = 0;
inline constexpr int kNotImplemented = 4;

// "xdnn_pytorch::add_tensor(float32[8, 8], ...) on device 0: invalid parameter (1)".
[[noreturn]] void
raiseLaunchError(int returned, const char* function, const std::string& arguments, c10::DeviceIndex device);

namespace detail {

template <typename T>
inline constexpr bool is_tensor = std::is_same_v<T, at::Tensor> || std::is_same_v<T, MaybeTensor>;

inline const at::Tensor& tensorOf(const at::Tensor& tensor) {
    return tensor;
}

inline const at::Tensor& tensorOf(const MaybeTensor& tensor) {
    static const at::Tensor absent;
    return tensor.has_value() ? *tensor : absent;
}

// The argument as an lvalue of the library's type: a scratch tensor, or the holder of a converted value.
template <size_t Index, typename T>
decltype(auto) converted(const T& value) {
    if constexpr (is_tensor<T>) {
        return assign(scratchTensors()[Index], tensorOf(value));
    } else {
        return toVendor(value);
    }
}

template <typename... Arguments>
std::string describeAll(const Arguments&... arguments) {
    std::string text;
    ((text += (text.empty() ? "" : ", ") + describe(arguments)), ...);
    return text;
}

} // namespace detail

// Calls `function`, which takes the context and then one converted argument per element of `arguments`.
// True when the work is queued on the current stream of `device`; false when the library does not implement
// this combination of dtypes and shapes, and then nothing has happened. Use TORCH_FL_XDNN.
template <typename Function, typename... Arguments>
bool launch(const char* name, c10::DeviceIndex device, Function function, const Arguments&... arguments) {
    static_assert(sizeof...(Arguments) <= kMaxTensors);
    const LaunchScope scope(device);
    const int returned = [&]<size_t... Index>(std::index_sequence<Index...>) {
        return [&](auto&&... converted) {
            return function(scope.context(), converted...);
        }(detail::converted<Index>(arguments)...);
    }(std::index_sequence_for<Arguments...>{});
    if (C10_UNLIKELY(returned != kLaunched && returned != kNotImplemented)) {
        raiseLaunchError(returned, name, detail::describeAll(arguments...), device);
    }
    return returned == kLaunched;
}

} // namespace torch_fl::kunlunxin

// launch() of one function of the library. The call is spelled out, and not made through a pointer, so that
// the library's own declaration may take its arguments by value or by reference and have defaults.
#define TORCH_FL_XDNN(function, device, ...)                                                                           \
    ::torch_fl::kunlunxin::launch(                                                                                     \
        #function,                                                                                                     \
        device,                                                                                                        \
        [](xdnn_pytorch::Context* context, auto&... arguments) {                                                       \
            return xdnn_pytorch::function(context, arguments...);                                                      \
        },                                                                                                             \
        __VA_ARGS__)
