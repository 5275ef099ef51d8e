#include "aten/backends/kunlunxin/transfer.h"

#include "aten/backends/kunlunxin/adaptor.h"
#include "aten/backends/kunlunxin/operators.h"
#include "aten/copy.h"
#include "aten/cpu_fallback.h"
#include "aten/tensor.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zero_ops.h>

namespace torch_fl::kunlunxin {

namespace {

// The same memory in a dtype of the library with elements of the same size, or with two halves each for
// complex dtypes and others of 16 bytes.
at::Tensor asLibraryBytes(const at::Tensor& tensor) {
    if (hasVendorType(tensor.scalar_type())) {
        return tensor;
    }
    if (tensor.is_complex()) {
        return at::view_as_real(tensor);
    }
    switch (tensor.itemsize()) {
    case 1:
        return tensor.view(at::kByte);
    case 2:
        return tensor.view(at::kShort);
    case 4:
        return tensor.view(at::kInt);
    default:
        return tensor.view(at::kLong);
    }
}

// fill_ rounds or refuses a value as the dtype's own conversion does.
at::Scalar valueIn(at::ScalarType dtype, const at::Scalar& value) {
    at::Scalar result;
    AT_DISPATCH_V2(
        dtype,
        "fill_out",
        AT_WRAP([&] { result = at::Scalar(value.to<scalar_t>()); }),
        at::kBool,
        at::kHalf,
        at::kBFloat16,
        AT_EXPAND(AT_ALL_TYPES));
    return result;
}

// The library takes numbers as float: a double that is not one would be rounded.
bool survivesAsNumber(const at::Scalar& value) {
    if (!value.isFloatingPoint()) {
        return true;
    }
    const double number = value.toDouble();
    return number != number || static_cast<double>(static_cast<float>(number)) == number;
}

at::Tensor& fillScalar(at::Tensor& self, const at::Scalar& value) {
    if (hasVendorType(self.scalar_type())) {
        const at::Scalar number = valueIn(self.scalar_type(), value);
        if (survivesAsNumber(number) && fill(self, number)) {
            return self;
        }
    }
    return onCpu<at::_ops::fill__Scalar>(self, value);
}

at::Tensor& fillTensor(at::Tensor& self, const at::Tensor& value) {
    TORCH_CHECK(
        value.dim() == 0,
        "fill_ only supports 0-dimension value tensor but got tensor with ",
        value.dim(),
        " dimensions.");
    // The value may be an element of the tensor that is filled.
    copyInto(self, value.storage().is_alias_of(self.storage()) ? value.clone() : value);
    return self;
}

at::Tensor& zero(at::Tensor& self) {
    return fill(asLibraryBytes(self), 0) ? self : onCpu<at::_ops::zero_>(self);
}

constexpr NativeOperator kOperators[] = {
    {"fill_.Scalar", &kernel<&fillScalar>},
    {"fill_.Tensor", &kernel<&fillTensor>},
    {"zero_", &kernel<&zero>},
};

} // namespace

bool cast(const at::Tensor& source, const at::Tensor& destination) {
    const c10::DeviceIndex device = destination.device().index();
    if (hasVendorType(source.scalar_type()) && hasVendorType(destination.scalar_type())) {
        return TORCH_FL_XDNN(cast, device, source, destination);
    }
    return source.scalar_type() == destination.scalar_type() &&
           TORCH_FL_XDNN(cast, device, asLibraryBytes(source), asLibraryBytes(destination));
}

at::Tensor castTo(const at::Tensor& tensor, at::ScalarType dtype) {
    if (tensor.scalar_type() == dtype) {
        return tensor;
    }
    at::Tensor result = emptyLike(tensor, dtype);
    copyInto(result, tensor);
    return result;
}

bool fill(const at::Tensor& tensor, const at::Scalar& value) {
    if (tensor.numel() == 0) {
        return true;
    }
    at::assert_no_internal_overlap(tensor);
    return TORCH_FL_XDNN(fill__scalar, tensor.device().index(), tensor, numberFor(tensor.scalar_type(), value), tensor);
}

std::span<const NativeOperator> transferOperators() {
    return kOperators;
}

} // namespace torch_fl::kunlunxin
