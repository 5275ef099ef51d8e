// The thread's last CUDA error, shared by the files of one cudart library.
#pragma once

#include <cuda_runtime.h>

// Keeps `error` for cudaGetLastError unless it is cudaSuccess, and returns it.
cudaError_t rememberCudaError(cudaError_t error);
