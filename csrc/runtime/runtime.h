#pragma once

#include "runtime/export.h"

namespace torch_fl {

// Gives PyTorch the device: name, guard, hooks, device and host allocator. Called once, by the Python module,
// and not by static initialisers, because it must be able to fail: raises c10::Error when PrivateUse1 already
// has another owner. Touches no device.
TORCH_FL_API void registerRuntime();

// Marks this process as using the device; raises in a forked child that cannot, see Note [Fork] in
// accelerator/kunlunxin/process.h. Everything that allocates, enqueues or waits starts here. Counting
// devices, asking for the current one and selecting one do not count as a use: the autograd engine selects
// devices in each of its threads, even for CPU work.
TORCH_FL_API void requireUsable();
TORCH_FL_API bool isInitialized() noexcept;
TORCH_FL_API bool isInBadFork() noexcept;

} // namespace torch_fl
