#pragma once

#include "runtime/export.h"

namespace torch_fl {

// Gives PyTorch the device: name, guard, hooks, device and host allocator. Called once, by the Python module,
// and not by static initialisers, because it must be able to fail: raises c10::Error when PrivateUse1 already
// has another owner. Touches no device.
TORCH_FL_API void registerRuntime();

// Note [Fork]
// A child forked after libxpurt was used inherits handles and a device state that are not its own. The first
// use marks the process (requireUsable), a fork handler marks the child, and from then on every use in the
// child raises PyTorch's "cannot re-initialise" error. Releasing memory in the child does nothing. Counting
// devices, asking for the current one and selecting one do not count as a use: the autograd engine selects
// devices in its own threads, even for CPU work.

// Raises in a child forked after use; otherwise marks the process as using the device.
TORCH_FL_API void requireUsable();
TORCH_FL_API bool isInitialized() noexcept;
TORCH_FL_API bool isInBadFork() noexcept;

} // namespace torch_fl
