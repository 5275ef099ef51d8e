#include "runtime/accelerator/kunlunxin/foreign_pinned.h"

// For its types only. The functions are weak references that nothing is linked for: they bind to the runtime
// that is already in the process, or stay null.
#include <cuda_runtime.h>

// NOLINTBEGIN(readability-redundant-declaration): declared again to make them weak.
extern "C" {
__attribute__((weak)) cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);
__attribute__((weak)) cudaError_t cudaGetLastError();
}
// NOLINTEND(readability-redundant-declaration)

namespace torch_fl::kunlunxin {

bool isPinnedByCudaRuntime(const void* pointer) {
    if (cudaPointerGetAttributes == nullptr) {
        return false;
    }
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
        // An older shim refuses pageable memory with an error. That is an answer; taken back so that the op
        // library does not find it as the failure of one of its own launches.
        if (cudaGetLastError != nullptr) {
            static_cast<void>(cudaGetLastError());
        }
        return false;
    }
    return attributes.type == cudaMemoryTypeHost;
}

} // namespace torch_fl::kunlunxin
