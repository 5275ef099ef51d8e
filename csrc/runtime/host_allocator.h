#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace torch_fl {

// Pinned host memory (xpu_host_alloc), cached by PyTorch's own CachingHostAllocatorImpl and registered as the
// host allocator of PrivateUse1.
at::HostAllocator& hostAllocator();

} // namespace torch_fl
