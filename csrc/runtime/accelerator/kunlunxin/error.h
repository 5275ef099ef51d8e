#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <string>

namespace torch_fl::kunlunxin {

// libxpurt documents failures as negative numbers, but some of its clients compare with the positive ones. No
// sign is relied upon anywhere.
inline constexpr int kSuccess = 0;

// For a call that is about no device in particular.
inline constexpr c10::DeviceIndex kNoDevice = -1;

// "Device memory not enough" (705): the caller may free memory and try again.
bool isOutOfMemory(int returned) noexcept;

// True for a code that the vendor's header defines as a failure, except "Resource busy" (716).
bool isDocumentedFailure(int returned) noexcept;

// The vendor's own sentence for a returned code of either sign, and the code: "Device memory not enough
// (705)".
std::string errorText(int returned);

// "xpu_malloc(4096 bytes) on device 0: Device memory not enough (705)". `call` is the call with its
// arguments.
std::string describeError(int returned, const std::string& call, c10::DeviceIndex device);

// Raises c10::OutOfMemoryError for "Device memory not enough" and c10::AcceleratorError, which carries the
// code, for everything else; describeError() is the message.
[[noreturn]] void raiseError(c10::SourceLocation where, int returned, const std::string& call, c10::DeviceIndex device);

} // namespace torch_fl::kunlunxin

// Evaluates `expression`, a call into a vendor library, and raises unless it returned 0. The remaining
// arguments are streamed into the description of the call, and only when it failed.
#define TORCH_FL_XPU_CHECK(expression, device, ...)                                                                    \
    do {                                                                                                               \
        const int torch_fl_returned = (expression);                                                                    \
        if (C10_UNLIKELY(torch_fl_returned != ::torch_fl::kunlunxin::kSuccess)) {                                      \
            ::torch_fl::kunlunxin::raiseError(                                                                         \
                {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},                                                 \
                torch_fl_returned,                                                                                     \
                c10::str(__VA_ARGS__),                                                                                 \
                (device));                                                                                             \
        }                                                                                                              \
    } while (false)
