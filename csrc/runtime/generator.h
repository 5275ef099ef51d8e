#pragma once

#include "runtime/export.h"

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace torch_fl {

// The default generator of a device (-1: the current one). Seeded with c10::default_rng_seed_val at first
// use.
TORCH_FL_API const at::Generator& defaultGenerator(c10::DeviceIndex device = -1);

// Seeds the default generators of all devices, those not made yet included. Touches no device:
// torch.manual_seed comes here in programs that never use one.
TORCH_FL_API void seedDefaultGenerators(uint64_t seed);

// A new generator on a device, with the default seed.
at::Generator newGenerator(c10::DeviceIndex device = -1);

// Note [Generators and the CPU fallback]
// A flagos generator keeps its state in a CPU Mersenne Twister of its own, separate from torch's default CPU
// generator. CPU kernels refuse a generator of another device, so whoever runs one for flagos passes what
// this returns: the CPU generator that *is* the state of `generator`, or of the device's default generator
// when there is none. What the kernel draws advances the flagos generator, and torch.manual_seed decides it.
// The kernel locks the returned generator's mutex as usual. A CPU generator is returned as it is.
at::Generator cpuGenerator(const std::optional<at::Generator>& generator, c10::DeviceIndex device = -1);

} // namespace torch_fl
