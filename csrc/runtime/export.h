#pragma once

// Marks what torch_fl._C calls in libtorch_fl.so. Everything else in the library is hidden.
#define TORCH_FL_API __attribute__((visibility("default")))
