#pragma once

#include "aten/tensor.h"

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/Resize.h>

#include <array>
#include <concepts>
#include <functional>
#include <optional>
#include <utility>

namespace torch_fl {

// Note [Structured kernels]
// PyTorch computes shapes, dtypes and errors of most operators in "meta" functions that are shared between
// backends: at::meta::structured_X::meta() calls back set_output_* for each output. The classes below are those
// callbacks, as torchgen writes them for PyTorch's own backends, so that one body serves the functional, the
// in-place and the out= overload, and errors read as on the CPU:
//
//     Functional<at::meta::structured_mm> op;   // allocates
//     op.meta(self, mat2);                      // checks
//     ... compute into op.output() ...
//
// Both kinds of set_output are treated alike: our kernels take outputs with any strides.

template <typename Meta, size_t Count = 1>
class Functional final : public Meta {
public:
    at::Tensor& output(size_t index = 0) { return outputs_[index]; }

    const at::Tensor& maybe_get_output(int64_t index) override { return outputs_[static_cast<size_t>(index)]; }

    void set_output_strided(
        int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
        set_output_raw_strided(index, sizes, strides, options);
    }

    void set_output_raw_strided(
        int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
        const c10::DeviceIndex device = options.device().index();
        const at::ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
        at::Tensor& output = outputs_[static_cast<size_t>(index)];
        if (!strides.empty()) {
            output = emptyStrided(sizes, strides, dtype, device);
        } else {
            output = emptyContiguous(sizes, dtype, device);
            if (const auto format = options.memory_format_opt()) {
                output.unsafeGetTensorImpl()->empty_tensor_restride(*format);
            }
        }
        if constexpr (std::derived_from<Meta, at::TensorIteratorBase>) {
            Meta::set_output_raw_strided(index, sizes, strides, options);
        }
    }

private:
    std::array<at::Tensor, Count> outputs_;
};

// Writes into given tensors: out= overloads, which are resized where PyTorch allows it, and in-place ones.
template <typename Meta, size_t Count = 1>
class IntoGiven final : public Meta {
public:
    enum class Kind { Out, InPlace };

    template <typename... Tensors>
    explicit IntoGiven(Kind kind, Tensors&... outputs) : kind_(kind), outputs_{std::ref(outputs)...} {
        static_assert(sizeof...(Tensors) == Count);
    }

    const at::Tensor& output(size_t index = 0) const { return outputs_[index]; }

    const at::Tensor& maybe_get_output(int64_t index) override { return outputs_[static_cast<size_t>(index)]; }

    void set_output_strided(
        int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
        set_output_raw_strided(index, sizes, strides, options);
    }

    void set_output_raw_strided(
        int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
        const at::Tensor& output = outputs_[static_cast<size_t>(index)];
        if (kind_ == Kind::InPlace) {
            checkInPlace(output, sizes, options);
        } else {
            resizeOut(output, sizes, strides, options);
        }
        if constexpr (std::derived_from<Meta, at::TensorIteratorBase>) {
            Meta::set_output_raw_strided(index, sizes, strides, options);
        }
    }

private:
    static void checkInPlace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options) {
        TORCH_CHECK(
            options.dtype() == self.dtype(),
            "Bad in-place call: input tensor dtype ",
            self.dtype(),
            " and output tensor dtype ",
            options.dtype(),
            " should match");
        TORCH_CHECK(
            options.device() == self.device(),
            "Bad in-place call: input tensor device ",
            self.device(),
            " and output tensor device ",
            options.device(),
            " should match");
        TORCH_CHECK(
            sizes == self.sizes(),
            "Bad in-place call: input tensor size ",
            self.sizes(),
            " and output tensor size ",
            sizes,
            " should match");
    }

    static void
    resizeOut(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
        TORCH_CHECK(
            options.dtype() == out.dtype(),
            "Expected out tensor to have dtype ",
            options.dtype(),
            ", but got ",
            out.dtype(),
            " instead");
        TORCH_CHECK(
            options.device() == out.device(),
            "Expected out tensor to have device ",
            options.device(),
            ", but got ",
            out.device(),
            " instead");
        if (!at::native::resize_output(out, sizes)) {
            return;
        }
        if (!strides.empty()) {
            out.as_strided_(sizes, strides);
        } else if (const auto format = options.memory_format_opt()) {
            out.unsafeGetTensorImpl()->empty_tensor_restride(*format);
        }
    }

    Kind kind_;
    std::array<std::reference_wrapper<const at::Tensor>, Count> outputs_;
};

// The check that PyTorch generates for its own kernels, and not for those registered from outside. Absent
// tensors are skipped.
class SameDevice {
public:
    explicit SameDevice(const char* operation) : operation_(operation) {}

    template <typename MaybeTensor>
    SameDevice& check(const MaybeTensor& tensor, const char* argument) {
        c10::impl::check_and_update_common_device(common_, tensor, operation_, argument);
        return *this;
    }

private:
    const char* operation_;
    std::optional<c10::Device> common_;
};

} // namespace torch_fl
