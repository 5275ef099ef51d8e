// Every component library says which set it belongs to, so that libxdnn_pytorch.so can refuse a mixed one.
#pragma once

#define XPUEMU_COMPONENT_SET "emulated-1"

extern "C" {

const char* xpu_blas_component_set(void);
const char* xpu_dnn_component_set(void);
const char* xpu_flash_attention_component_set(void);
const char* bkcl_component_set(void);

} // extern "C"
