// Walking several strided tensors together.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "call.h"

namespace xpuemu {

// Dimensions that remain after those of size 1 are dropped and neighbours that lie in one line are merged.
constexpr int kMaxDims = 16;

// N tensors over one shape. Strides count bytes; dimension 0 is the innermost. Trivially copyable, and only the first
// `dims` entries of each array mean anything.
template <int N>
struct Loop {
    int dims = 0;
    std::array<int64_t, kMaxDims> sizes;
    std::array<std::array<int64_t, kMaxDims>, N> strides;
    std::array<char*, N> data;

    // Adds an outer dimension. False when there are too many.
    bool add(int64_t size, const std::array<int64_t, N>& steps) {
        if (size == 1) {
            return true;
        }
        if (dims > 0) {
            bool mergeable = true;
            for (int n = 0; n < N; ++n) {
                mergeable = mergeable && steps[n] == strides[n][dims - 1] * sizes[dims - 1];
            }
            if (mergeable) {
                sizes[dims - 1] *= size;
                return true;
            }
        }
        if (dims == kMaxDims) {
            return false;
        }
        sizes[dims] = size;
        for (int n = 0; n < N; ++n) {
            strides[n][dims] = steps[n];
        }
        ++dims;
        return true;
    }

    // Makes the dimension in which tensor 0 is closest together the innermost: order does not matter to element-wise
    // work, but speed depends on it.
    void sortByFirst() {
        for (int i = 1; i < dims; ++i) {
            for (int j = i; j > 0 && strides[0][j] < strides[0][j - 1]; --j) {
                std::swap(sizes[j], sizes[j - 1]);
                for (int n = 0; n < N; ++n) {
                    std::swap(strides[n][j], strides[n][j - 1]);
                }
            }
        }
    }

    // Calls inner(pointers, steps, count) for each line of the innermost dimension.
    template <typename F>
    void run(F inner) const {
        std::array<char*, N> pointers = data;
        std::array<int64_t, N> steps{};
        int64_t count = 1;
        if (dims > 0) {
            count = sizes[0];
            for (int n = 0; n < N; ++n) {
                steps[n] = strides[n][0];
            }
        }
        std::array<int64_t, kMaxDims> position{};
        while (true) {
            inner(pointers, steps, count);
            int dim = 1;
            for (; dim < dims; ++dim) {
                for (int n = 0; n < N; ++n) {
                    pointers[n] += strides[n][dim];
                }
                if (++position[dim] < sizes[dim]) {
                    break;
                }
                for (int n = 0; n < N; ++n) {
                    pointers[n] -= strides[n][dim] * sizes[dim];
                }
                position[dim] = 0;
            }
            if (dim >= dims) {
                return;
            }
        }
    }
};

// Byte stride of `operand` in dimension `dim` of `shape`, where it may be broadcast: shapes are aligned at their ends.
// -1 when its size is neither that of the shape nor 1.
inline int64_t broadcastStride(const Operand& operand, const std::vector<int64_t>& shape, size_t dim) {
    const auto missing = static_cast<int64_t>(shape.size()) - operand.dims();
    const int64_t own = static_cast<int64_t>(dim) - missing;
    if (own < 0) {
        return 0;
    }
    if (operand.size(own) == shape[dim]) {
        return operand.stride(own) * operand.element_size;
    }
    return operand.size(own) == 1 ? 0 : -1;
}

// The loop over operands[0]'s shape, to which the others are broadcast. INVALID_PARAM when they do not fit it, or when
// a smaller shape would do, which means that operands[0] was not made for this result.
template <int N>
Error_t makeLoop(Call& call, const std::array<const Operand*, N>& operands, Loop<N>* loop) {
    const std::vector<int64_t>& shape = operands[0]->tensor->sizes;
    for (int n = 0; n < N; ++n) {
        loop->data[n] = operands[n]->data;
        if (operands[n]->dims() > operands[0]->dims()) {
            return call.fail(INVALID_PARAM);
        }
    }
    for (size_t dim = shape.size(); dim-- > 0;) {
        std::array<int64_t, N> steps{};
        bool somebody_has_it = N == 1 || shape[dim] == 1;
        for (int n = 0; n < N; ++n) {
            steps[n] = broadcastStride(*operands[n], shape, dim);
            if (steps[n] < 0) {
                return call.fail(INVALID_PARAM);
            }
            if (n > 0 && !somebody_has_it) {
                const int64_t own = static_cast<int64_t>(dim) - (operands[0]->dims() - operands[n]->dims());
                somebody_has_it = own >= 0 && operands[n]->size(own) == shape[dim];
            }
        }
        if (!somebody_has_it) {
            return call.fail(INVALID_PARAM);
        }
        if (!loop->add(shape[dim], steps)) {
            return call.fail(NOT_IMPLEMENT);
        }
    }
    if (loop->dims > 1) {
        loop->sortByFirst();
    }
    return SUCCESS;
}

} // namespace xpuemu
