// libxpujitc.so: on the device it compiles kernels; here it says for which instruction set the host's kernels are
// chosen.
#pragma once

extern "C" {

// "avx2" or "baseline".
const char* xpujitc_target(void);

} // extern "C"
