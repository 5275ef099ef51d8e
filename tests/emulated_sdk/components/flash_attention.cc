// libxpu_flash_attention.so: a component without operators in this version of the emulator.

#include "common/export.h"
#include "versions.h"

extern "C" XPUEMU_EXPORT const char* xpu_flash_attention_component_set(void) {
    return XPUEMU_COMPONENT_SET;
}
