#pragma once

namespace torch_fl::kunlunxin {

// Note [Fork]
// A child forked after libxpurt was called inherits handles and a device state that are not its own; whether
// asking for the number of devices is already too much is not documented, and is taken to be. The first call
// marks the process, a fork handler marks the child, and from then on every use in the child raises PyTorch's
// "cannot re-initialise" error. Releasing memory in the child does nothing: it is the parent's.

// Installs the fork handler. Called once, before anything else here; raises if the system refuses it.
void watchForks();

// Marks the process as having called libxpurt.
void noteCall() noexcept;

// True in a child forked after noteCall(), which must not call libxpurt.
bool isForkedAfterCall() noexcept;

// Raises where isForkedAfterCall().
void checkNotForked();

} // namespace torch_fl::kunlunxin
