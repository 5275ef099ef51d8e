#include <algorithm>
#include <string_view>
#include <type_traits>
#include <vector>

#include "blas.h"
#include "common/element.h"
#include "common/export.h"
#include "components/xpujitc.h"
#include "kernel.h"

namespace xpuemu::blas {

static Kernel chooseKernel() {
#if defined(__x86_64__)
    if (std::string_view(xpujitc_target()) == "avx2") {
        return avx2Kernel();
    }
#endif
    return baselineKernel();
}

template <typename T>
static const T& at(const XpuBlasMatrix& matrix, int64_t row, int64_t column) {
    return static_cast<const T*>(matrix.data)[row * matrix.row_stride + column * matrix.column_stride];
}

// Copies rows [row, row + rows) of `source`, columns [column, column + columns), as panels of `height` rows: each panel
// holds its columns one after the other, and rows past the end are 0.
template <typename T>
static void packPanels(
    const XpuBlasMatrix& source, int64_t row, int64_t rows, int64_t column, int64_t columns, int height,
    float* packed) {
    for (int64_t first = 0; first < rows; first += height) {
        const int64_t present = std::min<int64_t>(height, rows - first);
        for (int64_t c = 0; c < columns; ++c, packed += height) {
            for (int64_t r = 0; r < present; ++r) {
                packed[r] = toFloat(at<T>(source, row + first + r, column + c));
            }
            std::fill(packed + present, packed + height, 0.0f);
        }
    }
}

template <typename T>
static void storeBlock(
    const XpuBlasGemm& problem, int64_t row, int64_t rows, int64_t column, int64_t columns, const float* product,
    int64_t product_stride) {
    for (int64_t r = 0; r < rows; ++r) {
        const float* from = product + r * product_stride;
        T* to =
            static_cast<T*>(problem.out.data) + (row + r) * problem.out.row_stride + column * problem.out.column_stride;
        for (int64_t c = 0; c < columns; ++c) {
            float value = problem.alpha * from[c];
            if (problem.beta != 0.0f) {
                value += problem.beta * toFloat(at<T>(problem.addend, row + r, column + c));
            }
            to[c * problem.out.column_stride] = fromFloat<T>(value);
        }
    }
}

namespace {

struct Buffers {
    std::vector<float> a;
    std::vector<float> b;
    std::vector<float> product;
};

} // namespace

template <typename T>
static void multiplyFloating(const XpuBlasGemm& problem) {
    static const Kernel kernel = chooseKernel();
    // A block of a (96 x 256) and one of the product (96 x 512) fit a second-level cache; b is packed once per column
    // block, in at most some 16 MiB unless k is very large.
    constexpr int64_t kBlockRows = 96;
    constexpr int64_t kBlockDepth = 256;
    constexpr int64_t kMaxPackedB = int64_t{1} << 22;
    static_assert(kBlockRows % 6 == 0 && kBlockRows % 4 == 0);
    const int64_t widest = kMaxPackedB / std::max<int64_t>(1, problem.k) / kernel.columns * kernel.columns;
    const int64_t block_columns = std::clamp<int64_t>(widest, kernel.columns, 512);

    thread_local Buffers buffers; // a worker multiplies all its life: keep what it has grown
    const XpuBlasMatrix b_transposed{problem.b.data, problem.b.column_stride, problem.b.row_stride};
    buffers.a.resize(static_cast<size_t>(kBlockRows * std::min(kBlockDepth, problem.k)));

    for (int64_t column = 0; column < problem.n; column += block_columns) {
        const int64_t columns = std::min(block_columns, problem.n - column);
        const int64_t padded = (columns + kernel.columns - 1) / kernel.columns * kernel.columns;
        buffers.b.resize(static_cast<size_t>(padded * problem.k));
        for (int64_t depth = 0; depth < problem.k; depth += kBlockDepth) {
            const int64_t depths = std::min(kBlockDepth, problem.k - depth);
            packPanels<T>(
                b_transposed, column, columns, depth, depths, kernel.columns, buffers.b.data() + depth * padded);
        }
        for (int64_t row = 0; row < problem.m; row += kBlockRows) {
            const int64_t rows = std::min(kBlockRows, problem.m - row);
            const int64_t padded_rows = (rows + kernel.rows - 1) / kernel.rows * kernel.rows;
            buffers.product.assign(static_cast<size_t>(padded_rows * padded), 0.0f);
            for (int64_t depth = 0; depth < problem.k; depth += kBlockDepth) {
                const int64_t depths = std::min(kBlockDepth, problem.k - depth);
                packPanels<T>(problem.a, row, rows, depth, depths, kernel.rows, buffers.a.data());
                for (int64_t c = 0; c < padded; c += kernel.columns) {
                    const float* b_panel = buffers.b.data() + depth * padded + c * depths;
                    for (int64_t r = 0; r < padded_rows; r += kernel.rows) {
                        kernel.multiply(
                            depths,
                            buffers.a.data() + r * depths,
                            b_panel,
                            buffers.product.data() + r * padded + c,
                            padded);
                    }
                }
            }
            storeBlock<T>(problem, row, rows, column, columns, buffers.product.data(), padded);
        }
    }
}

template <typename T>
static void multiplyIntegral(const XpuBlasGemm& problem) {
    // Unsigned arithmetic wraps around as the types do, and does so without undefined behaviour.
    std::vector<uint64_t> sums(static_cast<size_t>(problem.n));
    for (int64_t row = 0; row < problem.m; ++row) {
        std::fill(sums.begin(), sums.end(), 0);
        for (int64_t i = 0; i < problem.k; ++i) {
            const auto factor = static_cast<uint64_t>(at<T>(problem.a, row, i));
            for (int64_t c = 0; c < problem.n; ++c) {
                sums[static_cast<size_t>(c)] += factor * static_cast<uint64_t>(at<T>(problem.b, i, c));
            }
        }
        for (int64_t c = 0; c < problem.n; ++c) {
            uint64_t value = static_cast<uint64_t>(problem.integer_alpha) * sums[static_cast<size_t>(c)];
            if (problem.integer_beta != 0) {
                value +=
                    static_cast<uint64_t>(problem.integer_beta) * static_cast<uint64_t>(at<T>(problem.addend, row, c));
            }
            static_cast<T*>(problem.out.data)[row * problem.out.row_stride + c * problem.out.column_stride] =
                static_cast<T>(value);
        }
    }
}

} // namespace xpuemu::blas

extern "C" {

XPUEMU_EXPORT bool xpu_blas_supports(xdnn_pytorch::ScalarType type) {
    return xpuemu::dispatchFloatingOrIntegral(type, false, [](auto) { return true; });
}

XPUEMU_EXPORT void xpu_blas_gemm(const XpuBlasGemm* problem) {
    xpuemu::dispatchFloatingOrIntegral(problem->type, false, [problem](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (xpuemu::is_floating<T>) {
            xpuemu::blas::multiplyFloating<T>(*problem);
        } else {
            xpuemu::blas::multiplyIntegral<T>(*problem);
        }
        return true;
    });
}

} // extern "C"
