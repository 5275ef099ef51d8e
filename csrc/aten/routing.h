#pragma once

#include "runtime/export.h"

#include <map>
#include <string>
#include <vector>

namespace torch_fl {

// From an ATen overload ("add.Tensor", "relu") to the backend that computes it: "kunlunxin", or "none" for
// the CPU fallback.
using Routes = std::map<std::string, std::string>;

// Note [Registration]
// Registers everything this layer has for PrivateUse1: what every tensor needs (memory, views, copies), the CPU
// fallback, the autocast lists, and of the tables of native kernels those that `routes` sends to their
// backend. An operator that is not in `routes` goes to the CPU fallback, as with "none".
//
// This happens at a call, after registerRuntime(), and not in static initialisers: a second owner of
// PrivateUse1 is then an error that can be told, where a clash of static registrations ends the process.
//
// Raises c10::Error, before anything is registered, for an operator that this PyTorch does not have, for a
// backend that does not exist, for an operator routed to a backend that has no kernel for it, and for a
// second call.
TORCH_FL_API void registerOperators(const Routes& routes);

// The overloads of the tables whose native kernels are registered, sorted.
TORCH_FL_API std::vector<std::string> registeredOperators();

} // namespace torch_fl
