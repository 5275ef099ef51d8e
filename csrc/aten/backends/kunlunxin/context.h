#pragma once

#include "runtime/stream.h"

#include <xdnn_pytorch/xdnn_pytorch.h>

namespace torch_fl::kunlunxin {

// Note [Contexts]
// A context of the operator library belongs to one device and stream, and holds the workspace that kernels
// queued there still use; it is not made for two threads at once. So each thread leases one per stream that it
// computes on, made at first use. When the thread ends its contexts go to an idle list, from where the next
// thread on that stream takes them: nothing has to wait for kernels that are still queued. Contexts are not
// destroyed while the process lives, and there are never more of one stream than threads that used it at once.

// The calling thread's context for `stream`, whose device must be current. Raises when the library has none
// to give.
xdnn_pytorch::Context* contextFor(const FlagosStream& stream);

} // namespace torch_fl::kunlunxin
