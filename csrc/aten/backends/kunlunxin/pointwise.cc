#include "aten/backends/kunlunxin/adaptor.h"
#include "aten/backends/kunlunxin/operators.h"
#include "aten/backends/kunlunxin/transfer.h"
#include "aten/copy.h"
#include "aten/cpu_fallback.h"
#include "aten/structured.h"
#include "aten/tensor.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/threshold_backward_meta.h>
#include <ATen/ops/threshold_backward_ops.h>

namespace torch_fl::kunlunxin {

namespace {

using at::Scalar;
using at::ScalarType;
using at::Tensor;

// Note [Two-operand kernels]
// A traits type per operator says what differs: the library's functions, the dtypes it computes in and the
// names of the overloads. `Alpha...` is one Scalar for add and sub, and nothing for mul and div.
//
// There are two ways to an answer. Where both operands are contiguous tensors of one shape and dtype, or one
// is a number that does not change the dtype, the output's shape is known and the library is called at once:
// most calls in real programs, and most of the cost of a small operator is finding this out.
// Everything else goes through TensorIterator, which knows broadcasting, type promotion, memory formats,
// overlap and every error message.

struct Add {
    using Meta = at::meta::structured_add_Tensor;
    using TensorOp = at::_ops::add_Tensor;
    using TensorInPlaceOp = at::_ops::add__Tensor;
    using TensorOutOp = at::_ops::add_out;
    using ScalarOp = at::_ops::add_Scalar;
    using ScalarInPlaceOp = at::_ops::add__Scalar;

    static bool computesIn(ScalarType dtype) { return computes(dtype); }

    static bool call(const Tensor& self, const Tensor& other, const Tensor& out, const Scalar& alpha) {
        return TORCH_FL_XDNN(add_tensor, out.device().index(), self, other, alpha, out);
    }
    static bool call(const Tensor& self, const Scalar& other, const Tensor& out, const Scalar& alpha) {
        return TORCH_FL_XDNN(add_scalar, out.device().index(), self, other, alpha, out);
    }
};

struct Sub {
    using Meta = at::meta::structured_sub_Tensor;
    using TensorOp = at::_ops::sub_Tensor;
    using TensorInPlaceOp = at::_ops::sub__Tensor;
    using TensorOutOp = at::_ops::sub_out;
    using ScalarOp = at::_ops::sub_Scalar;
    using ScalarInPlaceOp = at::_ops::sub__Scalar;

    // bool is refused, by the meta function and in its words.
    static bool computesIn(ScalarType dtype) { return dtype != at::kBool && computes(dtype); }

    static bool call(const Tensor& self, const Tensor& other, const Tensor& out, const Scalar& alpha) {
        return TORCH_FL_XDNN(sub_tensor, out.device().index(), self, other, alpha, out);
    }
    static bool call(const Tensor& self, const Scalar& other, const Tensor& out, const Scalar& alpha) {
        return TORCH_FL_XDNN(sub_scalar, out.device().index(), self, other, alpha, out);
    }
};

struct Mul {
    using Meta = at::meta::structured_mul_Tensor;
    using TensorOp = at::_ops::mul_Tensor;
    using TensorInPlaceOp = at::_ops::mul__Tensor;
    using TensorOutOp = at::_ops::mul_out;
    using ScalarOp = at::_ops::mul_Scalar;
    using ScalarInPlaceOp = at::_ops::mul__Scalar;

    static bool computesIn(ScalarType dtype) { return computes(dtype); }

    static bool call(const Tensor& self, const Tensor& other, const Tensor& out) {
        return TORCH_FL_XDNN(mul_tensor, out.device().index(), self, other, out);
    }
    static bool call(const Tensor& self, const Scalar& other, const Tensor& out) {
        return TORCH_FL_XDNN(mul_scalar, out.device().index(), self, other, out);
    }
};

struct Div {
    using Meta = at::meta::structured_div_Tensor;
    using TensorOp = at::_ops::div_Tensor;
    using TensorInPlaceOp = at::_ops::div__Tensor;
    using TensorOutOp = at::_ops::div_out;
    using ScalarOp = at::_ops::div_Scalar;
    using ScalarInPlaceOp = at::_ops::div__Scalar;

    // True division of integers computes in the default floating dtype, to which TensorIterator promotes.
    static bool computesIn(ScalarType dtype) { return computesFloat(dtype); }

    static bool call(const Tensor& self, const Tensor& other, const Tensor& out) {
        return TORCH_FL_XDNN(div_tensor, out.device().index(), self, other, out);
    }
    static bool call(const Tensor& self, const Scalar& other, const Tensor& out) {
        return TORCH_FL_XDNN(div_scalar, out.device().index(), self, other, out);
    }
};

bool onFlagos(const Tensor& tensor) {
    return tensor.device().type() == c10::DeviceType::PrivateUse1;
}

bool isNumber(const Tensor& tensor) {
    return tensor.dim() == 0 && tensor.device().is_cpu();
}

// Two contiguous tensors that an element-wise kernel can walk in step.
bool alike(const Tensor& a, const Tensor& b) {
    return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes() &&
           a.is_contiguous() && b.is_contiguous();
}

// PyTorch's order of dtype categories: a number only changes the dtype of a tensor of a lower one.
int category(ScalarType dtype) {
    return at::isComplexType(dtype) ? 3 : at::isFloatingType(dtype) ? 2 : dtype == at::kBool ? 0 : 1;
}

// A number next to this tensor leaves its dtype alone. A 0-dim tensor outranks Python numbers only.
bool keepsType(const Tensor& self, const Tensor& number) {
    return (self.dim() != 0 || number.unsafeGetTensorImpl()->is_wrapped_number()) &&
           category(number.scalar_type()) <= category(self.scalar_type());
}

bool keepsType(const Tensor& self, const Scalar& number) {
    return category(number.type()) <= category(self.scalar_type());
}

// CPU kernels take alpha in the dtype of the result and refuse what does not belong there.
void checkAlpha(ScalarType dtype, const Scalar& alpha) {
    TORCH_CHECK(!alpha.isBoolean() || dtype == at::kBool, "Boolean alpha only supported for Boolean results.");
    TORCH_CHECK(
        at::isFloatingType(dtype) || at::isComplexType(dtype) || alpha.isIntegral(true),
        "For integral input tensors, argument alpha must not be a floating point number.");
    TORCH_CHECK(
        at::isComplexType(dtype) || !alpha.isComplex(),
        "For non-complex input tensors, argument alpha must not be a complex number.");
}

// The direct way. False: not such a case, or refused by the library; nothing has happened.
template <typename Traits, typename... Alpha>
bool direct(const Tensor& self, const Tensor& other, const Tensor& out, const Alpha&... alpha) {
    (checkAlpha(self.scalar_type(), alpha), ...);
    return Traits::call(self, other, out, numberFor(self.scalar_type(), alpha)...);
}

template <typename Traits, typename... Alpha>
bool direct(const Tensor& self, const Scalar& other, const Tensor& out, const Alpha&... alpha) {
    const ScalarType dtype = self.scalar_type();
    (checkAlpha(dtype, alpha), ...);
    return Traits::call(self, numberFor(dtype, other), out, numberFor(dtype, alpha)...);
}

template <typename Traits>
bool canGoDirect(const Tensor& self) {
    return onFlagos(self) && self.is_contiguous() && self.numel() != 0 && Traits::computesIn(self.scalar_type());
}

// An operand of the iterator in the dtype that is computed in. A number becomes a 0-dim device tensor.
Tensor operand(const Tensor& tensor, ScalarType dtype, c10::DeviceIndex device) {
    if (!isNumber(tensor)) {
        return castTo(tensor, dtype);
    }
    Tensor number = emptyContiguous({}, dtype, device);
    copyInto(number, tensor);
    return number;
}

// Computes what an iterator has checked. False when the library cannot.
template <typename Traits, typename... Alpha>
bool compute(at::TensorIteratorBase& iterator, const Alpha&... alpha) {
    const ScalarType dtype = iterator.common_dtype();
    if (iterator.numel() == 0) {
        return true;
    }
    if (!Traits::computesIn(dtype)) {
        return false;
    }
    const Tensor& out = iterator.tensor(0);
    const Tensor& self = iterator.tensor(1);
    const Tensor& other = iterator.tensor(2);
    const c10::DeviceIndex device = out.device().index();
    const Tensor result = out.scalar_type() == dtype ? out : emptyLike(out, dtype);
    const Tensor left = operand(self, dtype, device);
    const bool done = isNumber(other)
                          ? Traits::call(left, numberFor(dtype, numberOf(other)), result, numberFor(dtype, alpha)...)
                          : Traits::call(left, operand(other, dtype, device), result, numberFor(dtype, alpha)...);
    if (done && !result.is_same(out)) {
        copyInto(out, result);
    }
    return done;
}

// Whether it is worth asking TensorIterator: only calls on device dtypes that the library may know.
template <typename Traits>
bool mayCompute(const Tensor& self, const Tensor& other) {
    const auto known = [](const Tensor& tensor) { return isNumber(tensor) || computes(tensor.scalar_type()); };
    return known(self) && known(other);
}

template <typename Traits, typename... Alpha>
Tensor binary(const Tensor& self, const Tensor& other, const Alpha&... alpha) {
    if (canGoDirect<Traits>(self)) {
        if (alike(self, other)) {
            Tensor out = emptyContiguous(self.sizes(), self.scalar_type(), self.device().index());
            if (direct<Traits>(self, other, out, alpha...)) {
                return out;
            }
        } else if (isNumber(other) && keepsType(self, other)) {
            Tensor out = emptyContiguous(self.sizes(), self.scalar_type(), self.device().index());
            if (direct<Traits>(self, numberOf(other), out, alpha...)) {
                return out;
            }
        }
    }
    if (mayCompute<Traits>(self, other)) {
        Functional<typename Traits::Meta> op;
        op.meta(self, other, alpha...);
        if (compute<Traits>(op, alpha...)) {
            return op.output();
        }
    }
    return onCpu<typename Traits::TensorOp>(self, other, alpha...);
}

template <typename Traits, typename... Alpha>
Tensor& binaryInPlace(Tensor& self, const Tensor& other, const Alpha&... alpha) {
    if (canGoDirect<Traits>(self)) {
        if (alike(self, other)) {
            at::assert_no_partial_overlap(self, other);
            if (direct<Traits>(self, other, self, alpha...)) {
                return self;
            }
        } else if (isNumber(other) && keepsType(self, other)) {
            if (direct<Traits>(self, numberOf(other), self, alpha...)) {
                return self;
            }
        }
    }
    if (mayCompute<Traits>(self, other)) {
        using Given = IntoGiven<typename Traits::Meta>;
        Given op(Given::Kind::InPlace, self);
        op.meta(self, other, alpha...);
        if (compute<Traits>(op, alpha...)) {
            return self;
        }
    }
    return onCpu<typename Traits::TensorInPlaceOp>(self, other, alpha...);
}

// add.out's schema has alpha before out, mul.out's nothing.
template <typename Traits>
Tensor& binaryOut(const Tensor& self, const Tensor& other, Tensor& out) {
    if (mayCompute<Traits>(self, other)) {
        using Given = IntoGiven<typename Traits::Meta>;
        Given op(Given::Kind::Out, out);
        op.meta(self, other);
        if (compute<Traits>(op)) {
            return out;
        }
    }
    return onCpu<typename Traits::TensorOutOp>(self, other, out);
}

template <typename Traits>
Tensor& binaryAlphaOut(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
    if (mayCompute<Traits>(self, other)) {
        using Given = IntoGiven<typename Traits::Meta>;
        Given op(Given::Kind::Out, out);
        op.meta(self, other, alpha);
        if (compute<Traits>(op, alpha)) {
            return out;
        }
    }
    return onCpu<typename Traits::TensorOutOp>(self, other, alpha, out);
}

Tensor wrapped(const Scalar& number) {
    Tensor tensor = c10::scalar_to_tensor(number);
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
}

template <typename Traits, typename... Alpha>
Tensor withScalar(const Tensor& self, const Scalar& other, const Alpha&... alpha) {
    if (canGoDirect<Traits>(self) && keepsType(self, other)) {
        Tensor out = emptyContiguous(self.sizes(), self.scalar_type(), self.device().index());
        if (direct<Traits>(self, other, out, alpha...)) {
            return out;
        }
    }
    return binary<Traits, Alpha...>(self, wrapped(other), alpha...);
}

template <typename Traits, typename... Alpha>
Tensor& withScalarInPlace(Tensor& self, const Scalar& other, const Alpha&... alpha) {
    if (canGoDirect<Traits>(self) && keepsType(self, other)) {
        if (direct<Traits>(self, other, self, alpha...)) {
            return self;
        }
    }
    return binaryInPlace<Traits, Alpha...>(self, wrapped(other), alpha...);
}

// bool is refused by the CPU kernel, in its words.
bool reluComputesIn(ScalarType dtype) {
    return dtype != at::kBool && computes(dtype);
}

Tensor relu(const Tensor& self) {
    if (reluComputesIn(self.scalar_type())) {
        Tensor out = emptyLike(self);
        if (self.numel() == 0 || TORCH_FL_XDNN(relu, self.device().index(), self, out)) {
            return out;
        }
    }
    return onCpu<at::_ops::relu>(self);
}

Tensor& reluInPlace(Tensor& self) {
    if (reluComputesIn(self.scalar_type())) {
        at::assert_no_internal_overlap(self);
        if (self.numel() == 0 || TORCH_FL_XDNN(relu, self.device().index(), self, self)) {
            return self;
        }
    }
    return onCpu<at::_ops::relu_>(self);
}

bool computeThresholdBackward(at::TensorIteratorBase& iterator, const Scalar& threshold) {
    const ScalarType dtype = iterator.common_dtype();
    if (iterator.numel() == 0) {
        return true;
    }
    const Tensor& out = iterator.tensor(0);
    if (!computesFloat(dtype) || out.scalar_type() != dtype) {
        return false;
    }
    const c10::DeviceIndex device = out.device().index();
    // The iterator's inputs are self, then the gradient.
    const Tensor self = operand(iterator.tensor(1), dtype, device);
    const Tensor gradient = operand(iterator.tensor(2), dtype, device);
    return TORCH_FL_XDNN(threshold_backward, device, gradient, self, numberFor(dtype, threshold), out);
}

Tensor thresholdBackward(const Tensor& gradient, const Tensor& self, const Scalar& threshold) {
    if (computesFloat(self.scalar_type()) && computesFloat(gradient.scalar_type())) {
        if (onFlagos(self) && self.numel() != 0 && alike(self, gradient)) {
            Tensor out = emptyContiguous(self.sizes(), self.scalar_type(), self.device().index());
            if (TORCH_FL_XDNN(
                    threshold_backward,
                    self.device().index(),
                    gradient,
                    self,
                    numberFor(self.scalar_type(), threshold),
                    out)) {
                return out;
            }
        }
        Functional<at::meta::structured_threshold_backward> op;
        op.meta(gradient, self, threshold);
        if (computeThresholdBackward(op, threshold)) {
            return op.output();
        }
    }
    return onCpu<at::_ops::threshold_backward>(gradient, self, threshold);
}

Tensor&
thresholdBackwardOut(const Tensor& gradient, const Tensor& self, const Scalar& threshold, Tensor& gradient_out) {
    if (computesFloat(self.scalar_type()) && computesFloat(gradient.scalar_type())) {
        using Given = IntoGiven<at::meta::structured_threshold_backward>;
        Given op(Given::Kind::Out, gradient_out);
        op.meta(gradient, self, threshold);
        if (computeThresholdBackward(op, threshold)) {
            return gradient_out;
        }
    }
    return onCpu<at::_ops::threshold_backward_grad_input>(gradient, self, threshold, gradient_out);
}

constexpr NativeOperator kOperators[] = {
    {"add.Tensor", &kernel<&binary<Add, Scalar>>},
    {"add_.Tensor", &kernel<&binaryInPlace<Add, Scalar>>},
    {"add.out", &kernel<&binaryAlphaOut<Add>>},
    {"add.Scalar", &kernel<&withScalar<Add, Scalar>>},
    {"add_.Scalar", &kernel<&withScalarInPlace<Add, Scalar>>},
    {"sub.Tensor", &kernel<&binary<Sub, Scalar>>},
    {"sub_.Tensor", &kernel<&binaryInPlace<Sub, Scalar>>},
    {"sub.out", &kernel<&binaryAlphaOut<Sub>>},
    {"sub.Scalar", &kernel<&withScalar<Sub, Scalar>>},
    {"sub_.Scalar", &kernel<&withScalarInPlace<Sub, Scalar>>},
    {"mul.Tensor", &kernel<&binary<Mul>>},
    {"mul_.Tensor", &kernel<&binaryInPlace<Mul>>},
    {"mul.out", &kernel<&binaryOut<Mul>>},
    {"mul.Scalar", &kernel<&withScalar<Mul>>},
    {"mul_.Scalar", &kernel<&withScalarInPlace<Mul>>},
    {"div.Tensor", &kernel<&binary<Div>>},
    {"div_.Tensor", &kernel<&binaryInPlace<Div>>},
    {"div.out", &kernel<&binaryOut<Div>>},
    {"div.Scalar", &kernel<&withScalar<Div>>},
    {"div_.Scalar", &kernel<&withScalarInPlace<Div>>},
    {"relu", &kernel<&relu>},
    {"relu_", &kernel<&reluInPlace>},
    {"threshold_backward", &kernel<&thresholdBackward>},
    {"threshold_backward.grad_input", &kernel<&thresholdBackwardOut>},
};

} // namespace

std::span<const NativeOperator> pointwiseOperators() {
    return kOperators;
}

} // namespace torch_fl::kunlunxin
