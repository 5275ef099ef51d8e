#pragma once

#include <torch/library.h>

namespace torch_fl {

// Registers PyTorch's own autocast lists, in a library for aten on AutocastPrivateUse1. Operators in no list are
// left to the fallthrough that routing.cc registers.
void registerAutocast(torch::Library& library);

} // namespace torch_fl
