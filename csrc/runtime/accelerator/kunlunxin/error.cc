#include "runtime/accelerator/kunlunxin/error.h"

#include <xpu/runtime.h>

#include <cstdlib>

namespace torch_fl::kunlunxin {

bool isOutOfMemory(int returned) noexcept {
    return std::abs(returned) == XPUERR_NOMEM;
}

bool isDocumentedFailure(int returned) noexcept {
    const int code = std::abs(returned);
    if (code == XPUERR_BUSY) {
        return false;
    }
    return (code >= XPUERR_INVALID_DEVICE && code <= XPUERR_OVERHEAT) ||
           (code >= XPUERR_UNEXPECT && code <= XPUERR_TRACER);
}

std::string errorText(int returned) {
    return c10::str(xpu_strerror(returned), " (", std::abs(returned), ")");
}

std::string describeError(int returned, const std::string& call, c10::DeviceIndex device) {
    const std::string where = device == kNoDevice ? "" : c10::str(" on device ", static_cast<int>(device));
    return c10::str(call, where, ": ", errorText(returned));
}

void raiseError(c10::SourceLocation where, int returned, const std::string& call, c10::DeviceIndex device) {
    std::string message = describeError(returned, call, device);
    if (isOutOfMemory(returned)) {
        throw c10::OutOfMemoryError(where, std::move(message));
    }
    throw c10::AcceleratorError(where, std::abs(returned), std::move(message));
}

} // namespace torch_fl::kunlunxin
