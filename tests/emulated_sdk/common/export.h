// Everything is hidden unless marked: the emulated libraries export what the vendor's do, and xpuemu_* for tests.
#pragma once

#define XPUEMU_EXPORT __attribute__((visibility("default")))
