// The innermost part of the float matrix product: one tile of the result from packed panels.
#pragma once

#include <cstdint>

namespace xpuemu::blas {

struct Kernel {
    int rows;    // of a tile
    int columns; // of a tile
    // tile[r * tile_stride + c] += sum over i < depth of a[i * rows + r] * b[i * columns + c].
    void (*multiply)(int64_t depth, const float* a, const float* b, float* tile, int64_t tile_stride);
};

// Vectors of Bytes bytes; a tile is Rows x (Vectors * Bytes / 4).
template <int Rows, int Vectors, int Bytes>
void multiplyTile(int64_t depth, const float* a, const float* b, float* tile, int64_t tile_stride) {
    typedef float Vector __attribute__((vector_size(Bytes)));
    // In memory a vector may lie anywhere. (Copying with memcpy would be cleaner, but costs a trip over the stack.)
    typedef float Stored __attribute__((vector_size(Bytes), aligned(4), may_alias));
    constexpr int kLanes = Bytes / 4;
    Vector sums[Rows][Vectors] = {};
    for (int64_t i = 0; i < depth; ++i) {
        Vector columns[Vectors];
        for (int vector = 0; vector < Vectors; ++vector) {
            columns[vector] = *reinterpret_cast<const Stored*>(b + (i * Vectors + vector) * kLanes);
        }
        for (int row = 0; row < Rows; ++row) {
            const float factor = a[i * Rows + row];
            for (int vector = 0; vector < Vectors; ++vector) {
                sums[row][vector] += columns[vector] * factor;
            }
        }
    }
    for (int row = 0; row < Rows; ++row) {
        for (int vector = 0; vector < Vectors; ++vector) {
            *reinterpret_cast<Stored*>(tile + row * tile_stride + vector * kLanes) += sums[row][vector];
        }
    }
}

Kernel baselineKernel();
#if defined(__x86_64__)
Kernel avx2Kernel(); // needs a processor with AVX2 and FMA
#endif

} // namespace xpuemu::blas
