#include "aten/backends/kunlunxin/adaptor.h"

#include "aten/backends/kunlunxin/context.h"

#include <ATen/Dispatch_v2.h>
#include <c10/util/StringUtil.h>

namespace torch_fl::kunlunxin {

namespace {

using VendorType = xdnn_pytorch::ScalarType;

const char* vendorTypeName(VendorType type) {
    switch (type) {
    case VendorType::kbool:
        return "bool";
    case VendorType::kuint8:
        return "uint8";
    case VendorType::kint8:
        return "int8";
    case VendorType::kint16:
        return "int16";
    case VendorType::kint32:
        return "int32";
    case VendorType::kint64:
        return "int64";
    case VendorType::kfloat32:
        return "float32";
    case VendorType::kfloat16:
        return "float16";
    case VendorType::kbfloat16:
        return "bfloat16";
    case VendorType::kfloat64:
        return "float64";
    default:
        return "unknown";
    }
}

// The library's Error_t.
const char* launchErrorText(int returned) {
    switch (returned) {
    case 1:
        return "invalid parameter";
    case 2:
        return "runtime error";
    case 3:
        return "not enough workspace";
    case kNotImplemented:
        return "not implemented";
    default:
        return "unknown error";
    }
}

} // namespace

xdnn_pytorch::ScalarType vendorType(at::ScalarType dtype) {
    switch (dtype) {
    case at::kBool:
        return VendorType::kbool;
    case at::kByte:
        return VendorType::kuint8;
    case at::kChar:
        return VendorType::kint8;
    case at::kShort:
        return VendorType::kint16;
    case at::kInt:
        return VendorType::kint32;
    case at::kLong:
        return VendorType::kint64;
    case at::kFloat:
        return VendorType::kfloat32;
    case at::kHalf:
        return VendorType::kfloat16;
    case at::kBFloat16:
        return VendorType::kbfloat16;
    case at::kDouble:
        return VendorType::kfloat64;
    default:
        return VendorType::UnknownScalarType;
    }
}

at::Scalar numberFor(at::ScalarType dtype, const at::Scalar& value) {
    if (at::isFloatingType(dtype)) {
        return value.toDouble();
    }
    return value.isFloatingPoint() ? at::Scalar(static_cast<int64_t>(value.toDouble())) : at::Scalar(value.toLong());
}

at::Scalar numberOf(const at::Tensor& cpu_scalar) {
    at::Scalar value;
    AT_DISPATCH_V2(
        cpu_scalar.scalar_type(),
        "numberOf",
        AT_WRAP([&] { value = at::Scalar(*cpu_scalar.const_data_ptr<scalar_t>()); }),
        at::kBool,
        at::kHalf,
        at::kBFloat16,
        AT_EXPAND(AT_ALL_TYPES),
        AT_EXPAND(AT_COMPLEX_TYPES));
    return value;
}

std::array<xdnn_pytorch::Tensor, kMaxTensors>& scratchTensors() {
    thread_local std::array<xdnn_pytorch::Tensor, kMaxTensors> tensors;
    return tensors;
}

xdnn_pytorch::Tensor& assign(xdnn_pytorch::Tensor& target, const at::Tensor& source) {
    if (!source.defined()) {
        target.sizes.assign(1, 0);
        target.strides.assign(1, 0);
        target.type = VendorType::kfloat32;
        target.data = nullptr;
        return target;
    }
    if (source.dim() == 0) {
        target.sizes.assign(1, 1);
        target.strides.assign(1, 1);
    } else {
        const at::IntArrayRef sizes = source.sizes();
        const at::IntArrayRef strides = source.strides();
        target.sizes.assign(sizes.begin(), sizes.end());
        target.strides.assign(strides.begin(), strides.end());
    }
    target.type = vendorType(source.scalar_type());
    // The library's type is not const, whatever it does with the memory.
    target.data = const_cast<void*>(source.const_data_ptr());
    return target;
}

xdnn_pytorch::Scalar toVendor(const at::Scalar& value) {
    return value.isFloatingPoint() ? xdnn_pytorch::Scalar::create(static_cast<float>(value.toDouble()))
                                   : xdnn_pytorch::Scalar::create(value.toLong());
}

xdnn_pytorch::ScalarType toVendor(at::ScalarType dtype) {
    return vendorType(dtype);
}

std::vector<int64_t> toVendor(at::IntArrayRef values) {
    return values.vec();
}

std::string describe(const at::Tensor& tensor) {
    return tensor.defined() ? c10::str(vendorTypeName(vendorType(tensor.scalar_type())), tensor.sizes()) : "none";
}

std::string describe(const MaybeTensor& tensor) {
    return tensor.has_value() ? describe(*tensor) : "none";
}

std::string describe(const at::Scalar& value) {
    return value.isFloatingPoint() ? c10::str(value.toDouble()) : c10::str(value.toLong());
}

std::string describe(at::ScalarType dtype) {
    return vendorTypeName(vendorType(dtype));
}

std::string describe(at::IntArrayRef values) {
    return c10::str(values);
}

std::string describe(int64_t value) {
    return std::to_string(value);
}

std::string describe(bool value) {
    return value ? "true" : "false";
}

LaunchScope::LaunchScope(c10::DeviceIndex device) : device_(device), context_(contextFor(currentStream(device))) {}

void raiseLaunchError(int returned, const char* function, const std::string& arguments, c10::DeviceIndex device) {
    TORCH_CHECK(
        false,
        "xdnn_pytorch::",
        function,
        "(",
        arguments,
        ") on device ",
        static_cast<int>(device),
        ": ",
        launchErrorText(returned),
        " (",
        returned,
        ")");
}

} // namespace torch_fl::kunlunxin
