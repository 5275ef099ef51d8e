#pragma once

#include "runtime/export.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <memory>

// What PyTorch finds behind PrivateUse1 between `import torch`, which autoload has given the name flagos, and the
// first use of the device. It opens nothing: a question that needs the backend makes Python load it
// (torch.flagos._lazy_init, which imports torch_fl), and is then put to the backend. This library links torch alone.
//
// Without it the name would be there and nothing behind it: torch.Generator("flagos"), torch.Stream("flagos") and
// pinned memory would fail as a first use, code for any accelerator would fail on a machine without a working vendor
// stack, and the autograd engine, which counts devices once, at the first backward pass of the process, would know of
// none.

namespace torch_fl {

// Makes `hooks` answer from now on; PyTorch takes a set of hooks once a process, so they stand behind the stand-in's.
// Null registers those alone. Raises c10::Error when PyTorch has the hooks of another backend. Whoever gives hooks has
// registered guard and allocator before.
TORCH_FL_API void registerHooks(std::unique_ptr<at::PrivateUse1HooksInterface> hooks);

} // namespace torch_fl

// Registers the stand-in; PrivateUse1 has its name by now. Returns 0, or -1 when another backend's hooks are
// registered. For torch_fl_autoload.py; throws nothing.
extern "C" TORCH_FL_API int torch_fl_register_stand_in() noexcept;
