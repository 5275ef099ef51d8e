#pragma once

namespace torch_fl::kunlunxin {

// True when the CUDA-shaped runtime that the vendor's op library brings into the process says that `pointer`
// is pinned host memory: memory that another allocator pinned, as DDP's buckets may be. This is the only use
// made of that runtime. False when no such runtime is mapped or when it refuses the pointer.
bool isPinnedByCudaRuntime(const void* pointer);

} // namespace torch_fl::kunlunxin
