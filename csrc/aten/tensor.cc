#include "aten/tensor.h"

#include "aten/copy.h"
#include "runtime/copy.h"
#include "runtime/device_allocator.h"
#include "runtime/guard.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

namespace torch_fl {

namespace {

constexpr c10::DispatchKeySet kKeys{c10::DispatchKey::PrivateUse1};

bool fillsUninitialisedMemory() {
    const at::Context& context = at::globalContext();
    return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

// torch.use_deterministic_algorithms() asks for known values where memory would have any.
at::Tensor initialised(at::Tensor tensor) {
    if (C10_UNLIKELY(fillsUninitialisedMemory())) {
        at::native::fill_empty_deterministic_(tensor);
    }
    return tensor;
}

c10::DeviceIndex
checkedDevice(std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin_memory) {
    TORCH_CHECK(
        c10::layout_or_default(layout) == at::kStrided,
        "Expected strided layout on flagos, got ",
        c10::layout_or_default(layout),
        ".");
    TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
    return device.has_value() ? device->index() : c10::DeviceIndex{-1};
}

at::Tensor emptyMemoryFormat(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format) {
    const DeviceGuard guard({c10::DeviceType::PrivateUse1, checkedDevice(layout, device, pin_memory)});
    return initialised(
        at::detail::empty_generic(size, &deviceAllocator(), kKeys, c10::dtype_or_default(dtype), memory_format));
}

at::Tensor emptyStridedOptions(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin_memory) {
    return initialised(
        emptyStrided(size, stride, c10::dtype_or_default(dtype), checkedDevice(layout, device, pin_memory)));
}

// The storage of a tensor that has none, or one too small, before it is given new sizes and strides.
void growStorage(at::TensorImpl& self, size_t wanted) {
    if (self.numel() == 0) {
        return;
    }
    const auto bytes = static_cast<int64_t>(wanted);
    const at::Storage& storage = self.unsafe_storage();
    if (!storage) {
        const DeviceGuard guard(self.device());
        self.set_storage_keep_dtype(
            at::Storage(
                at::Storage::use_byte_size_t(), static_cast<int64_t>(bytes), &deviceAllocator(), /*resizable=*/true));
    } else if (wanted > storage.nbytes()) {
        at::native::resize_bytes_nocuda(storage, static_cast<int64_t>(bytes));
    }
}

void setSizes(at::TensorImpl& self, at::IntArrayRef size, at::OptionalIntArrayRef stride) {
    if (self.sizes() == size && (!stride || self.strides() == *stride)) {
        return;
    }
    const auto offset = static_cast<size_t>(self.storage_offset());
    const size_t itemsize = self.dtype().itemsize();
    size_t bytes = 0;
    if (stride) {
        self.set_sizes_and_strides(size, *stride);
        bytes = at::detail::computeStorageNbytes(size, *stride, itemsize, offset);
    } else {
        at::detail::check_size_nonnegative(size);
        self.set_sizes_contiguous(size);
        bytes = at::detail::computeStorageNbytesContiguous(size, itemsize, offset);
    }
    growStorage(self, bytes);
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
    const at::Storage& storage = self.unsafeGetTensorImpl()->unsafe_storage();
    const auto bytes_before = storage ? static_cast<int64_t>(storage.nbytes()) : int64_t{0};
    at::TensorImpl& impl = *self.unsafeGetTensorImpl();
    setSizes(impl, size, std::nullopt);
    if (memory_format.has_value()) {
        TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "Unsupported memory format", *memory_format);
        impl.empty_tensor_restride(*memory_format);
    }
    if (C10_UNLIKELY(fillsUninitialisedMemory())) {
        at::native::fill_resize_deterministic_(self, bytes_before);
    }
    return self;
}

at::Tensor& setEmpty(at::Tensor& self) {
    const DeviceGuard guard(self.device());
    at::Storage storage(
        at::Storage::use_byte_size_t(),
        0,
        deviceAllocator().allocate(0),
        &deviceAllocator(),
        /*resizable=*/true);
    return self.set_(std::move(storage), 0, {0}, {});
}

at::Tensor&
setStorage(at::Tensor& self, at::Storage source, int64_t storage_offset, at::IntArrayRef size, at::IntArrayRef stride) {
    at::native::checkSetStorage(self, std::move(source), storage_offset, size, stride);
    at::TensorImpl& impl = *self.unsafeGetTensorImpl();
    impl.set_storage_offset(storage_offset);
    setSizes(impl, size, stride.data() != nullptr ? at::OptionalIntArrayRef(stride) : at::OptionalIntArrayRef());
    return self;
}

at::Tensor& setSourceStorage(at::Tensor& self, at::Storage source) {
    return at::native::set_(self, std::move(source));
}

at::Scalar localScalarDense(const at::Tensor& self) {
    const at::Tensor host = at::detail::empty_cpu({}, self.scalar_type());
    copyDeviceToHost(host.mutable_data_ptr(), self.const_data_ptr(), self.device().index(), self.itemsize());
    return at::native::_local_scalar_dense_cpu(host);
}

void recordStream(at::Tensor& self, at::Stream stream) {
    deviceAllocator().recordStream(self.storage().data_ptr(), stream);
}

constexpr NativeOperator kOperators[] = {
    {"empty.memory_format", &kernel<&emptyMemoryFormat>},
    {"empty_strided", &kernel<&emptyStridedOptions>},
    {"as_strided", &kernel<&at::native::as_strided_tensorimpl>},
    {"view", &kernel<&at::native::view>},
    {"_reshape_alias", &kernel<&at::native::_reshape_alias>},
    {"unfold", &kernel<&at::native::unfold>},
    {"view_as_real", &kernel<&at::native::view_as_real>},
    {"view_as_complex", &kernel<&at::native::view_as_complex>},
    {"resize_", &kernel<&resize>},
    {"set_", &kernel<&setEmpty>},
    {"set_.source_Tensor", &kernel<&at::native::set_tensor_>},
    {"set_.source_Storage", &kernel<&setSourceStorage>},
    {"set_.source_Storage_storage_offset", &kernel<&setStorage>},
    {"_local_scalar_dense", &kernel<&localScalarDense>},
    {"record_stream", &kernel<&recordStream>},
};

} // namespace

at::Tensor emptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, c10::DeviceIndex device) {
    const DeviceGuard guard({c10::DeviceType::PrivateUse1, device});
    return at::detail::empty_strided_generic(sizes, strides, &deviceAllocator(), kKeys, dtype);
}

at::Tensor emptyContiguous(at::IntArrayRef sizes, at::ScalarType dtype, c10::DeviceIndex device) {
    const DeviceGuard guard({c10::DeviceType::PrivateUse1, device});
    return at::detail::empty_generic(sizes, &deviceAllocator(), kKeys, dtype, std::nullopt);
}

at::Tensor emptyLike(const at::Tensor& self, at::ScalarType dtype) {
    const c10::DeviceIndex device = self.device().index();
    return self.is_non_overlapping_and_dense() && !self.is_contiguous()
               ? emptyStrided(self.sizes(), self.strides(), dtype, device)
               : emptyContiguous(self.sizes(), dtype, device);
}

std::span<const NativeOperator> tensorOperators() {
    return kOperators;
}

} // namespace torch_fl
