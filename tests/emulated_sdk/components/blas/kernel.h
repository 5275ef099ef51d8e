// The innermost part of the float matrix product: one tile of the result from packed panels.
#pragma once

#include <cstdint>
#include <cstring>

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
    constexpr int kLanes = Bytes / 4;
    Vector sums[Rows][Vectors] = {};
    for (int64_t i = 0; i < depth; ++i) {
        Vector columns[Vectors];
        std::memcpy(columns, b + i * Vectors * kLanes, sizeof columns);
        for (int row = 0; row < Rows; ++row) {
            const float factor = a[i * Rows + row];
            for (int vector = 0; vector < Vectors; ++vector) {
                sums[row][vector] += columns[vector] * factor;
            }
        }
    }
    for (int row = 0; row < Rows; ++row) {
        float* target = tile + row * tile_stride;
        Vector present[Vectors];
        std::memcpy(present, target, sizeof present);
        for (int vector = 0; vector < Vectors; ++vector) {
            present[vector] += sums[row][vector];
        }
        std::memcpy(target, present, sizeof present);
    }
}

Kernel baselineKernel();
#if defined(__x86_64__)
Kernel avx2Kernel(); // needs a processor with AVX2 and FMA
#endif

} // namespace xpuemu::blas
