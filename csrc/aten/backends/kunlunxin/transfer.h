#pragma once

#include <ATen/core/Tensor.h>

namespace torch_fl::kunlunxin {

// Writes `source` into `destination`, which has its sizes and is on the same device, converting the dtype;
// both may be strided in any way, and `source` may be expanded. With equal dtypes it moves any dtype, those
// included that the library does not know. False, and nothing has happened, when the library has no such
// conversion. Raises when it fails.
bool cast(const at::Tensor& source, const at::Tensor& destination);

// `tensor` in `dtype`: itself when it is that already. The library must have both types and the conversion.
at::Tensor castTo(const at::Tensor& tensor, at::ScalarType dtype);

// Writes a value that `tensor`'s dtype can hold into every element. False when the library cannot.
bool fill(const at::Tensor& tensor, const at::Scalar& value);

} // namespace torch_fl::kunlunxin
