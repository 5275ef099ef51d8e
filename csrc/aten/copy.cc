#include "aten/copy.h"

#include "aten/backends/kunlunxin/transfer.h"
#include "aten/tensor.h"
#include "runtime/copy.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/copy_native.h>

namespace torch_fl {

namespace {

bool onFlagos(const at::Tensor& tensor) {
    return tensor.device().type() == c10::DeviceType::PrivateUse1;
}

// One gapless range of memory, in the same order on both sides.
bool sameDenseLayout(const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && ((a.is_contiguous() && b.is_contiguous()) ||
                                      (a.strides() == b.strides() && a.is_non_overlapping_and_dense()));
}

// Bytes from the first element to the end of the last one.
size_t spanBytes(const at::Tensor& tensor) {
    return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
}

at::Tensor emptyHost(const at::Tensor& like, at::ScalarType dtype) {
    return at::detail::empty_strided_cpu(like.sizes(), like.strides(), dtype);
}

// A host tensor with the strides of a flagos tensor, and what its memory holds, gaps included.
at::Tensor readSpan(const at::Tensor& tensor) {
    at::Tensor host = emptyHost(tensor, tensor.scalar_type());
    copyDeviceToHost(host.mutable_data_ptr(), tensor.const_data_ptr(), tensor.device().index(), spanBytes(tensor));
    return host;
}

void writeSpan(const at::Tensor& tensor, const at::Tensor& host) {
    copyHostToDevice(tensor.mutable_data_ptr(), tensor.device().index(), host.const_data_ptr(), spanBytes(tensor));
}

// For what the operator library cannot convert. Takes the gaps of a strided destination along, and puts back
// what they held.
void copyThroughHost(const at::Tensor& destination, const at::Tensor& host_source) {
    at::Tensor host = destination.is_non_overlapping_and_dense() ? emptyHost(destination, destination.scalar_type())
                                                                 : readSpan(destination);
    at::native::copy_(host, host_source);
    writeSpan(destination, host);
}

void copyWithinDevice(const at::Tensor& destination, const at::Tensor& source) {
    const c10::DeviceIndex device = destination.device().index();
    if (destination.scalar_type() == source.scalar_type() && sameDenseLayout(destination, source)) {
        if (destination.const_data_ptr() != source.const_data_ptr()) {
            copyDeviceToDevice(destination.mutable_data_ptr(), source.const_data_ptr(), device, destination.nbytes());
        }
        return;
    }
    if (!kunlunxin::cast(source.expand(destination.sizes()), destination)) {
        copyThroughHost(destination, readSpan(source));
    }
}

// Dense, in the dtype of `like` and with its strides where those are dense too.
at::Tensor packed(const at::Tensor& source, const at::Tensor& like) {
    if (source.scalar_type() == like.scalar_type() && sameDenseLayout(source, like)) {
        return source;
    }
    const c10::DeviceIndex device = source.device().index();
    at::Tensor result = like.is_non_overlapping_and_dense()
                            ? emptyStrided(like.sizes(), like.strides(), like.scalar_type(), device)
                            : emptyContiguous(like.sizes(), like.scalar_type(), device);
    copyWithinDevice(result, source);
    return result;
}

void copyFromHost(const at::Tensor& destination, const at::Tensor& source, bool non_blocking) {
    const c10::DeviceIndex device = destination.device().index();
    if (!destination.is_non_overlapping_and_dense() || source.numel() < destination.numel()) {
        // What broadcasts travels once, and is spread on the device.
        at::Tensor moved = emptyContiguous(source.sizes(), destination.scalar_type(), device);
        copyFromHost(moved, source, non_blocking);
        copyWithinDevice(destination, moved);
        return;
    }
    if (source.scalar_type() == destination.scalar_type() && sameDenseLayout(destination, source)) {
        copyHostToDevice(
            destination.mutable_data_ptr(),
            device,
            source.const_data_ptr(),
            source.storage().data_ptr(),
            destination.nbytes(),
            non_blocking);
        return;
    }
    copyThroughHost(destination, source);
}

void copyToHost(at::Tensor destination, const at::Tensor& source, bool non_blocking) {
    if (!onFlagos(source)) {
        at::native::copy_(destination, source);
        return;
    }
    if (source.scalar_type() == destination.scalar_type() && sameDenseLayout(destination, source)) {
        copyDeviceToHost(
            destination.mutable_data_ptr(),
            destination.storage().data_ptr(),
            source.const_data_ptr(),
            source.device().index(),
            destination.nbytes(),
            non_blocking);
        return;
    }
    // Gaps are worth taking along up to a point: packing first costs a kernel and memory.
    const bool mostly_gaps = spanBytes(source) > 2 * source.nbytes();
    at::native::copy_(destination, readSpan(mostly_gaps ? packed(source, source) : source));
}

void copyBetweenDevices(const at::Tensor& destination, const at::Tensor& source) {
    const at::Tensor sent = packed(source.expand(destination.sizes()), destination);
    const at::Tensor received =
        sameDenseLayout(destination, sent)
            ? destination
            : emptyContiguous(destination.sizes(), destination.scalar_type(), destination.device().index());
    copyPeer(
        received.mutable_data_ptr(),
        received.device().index(),
        sent.const_data_ptr(),
        sent.device().index(),
        received.nbytes());
    if (!received.is_same(destination)) {
        copyWithinDevice(destination, received);
    }
}

void copyPlain(const at::Tensor& destination, const at::Tensor& source, bool non_blocking) {
    if (!onFlagos(destination)) {
        copyToHost(destination, source, non_blocking);
    } else if (!onFlagos(source)) {
        copyFromHost(destination, source, non_blocking);
    } else if (destination.device() == source.device()) {
        copyWithinDevice(destination, source);
    } else {
        copyBetweenDevices(destination, source);
    }
}

// The same memory without the bits that say how to read it.
at::Tensor withoutBits(at::Tensor tensor) {
    if (tensor.is_conj()) {
        tensor = at::_conj(tensor);
    }
    return tensor.is_neg() ? at::_neg_view(tensor) : tensor;
}

void copyResolvingBits(const at::Tensor& destination, const at::Tensor& source, bool non_blocking) {
    const bool conjugate = source.is_conj() != destination.is_conj();
    const bool negate = source.is_neg() != destination.is_neg();
    const at::Tensor target = withoutBits(destination);
    at::Tensor values = withoutBits(source);
    if (!conjugate && !negate) {
        copyPlain(target, values, non_blocking);
        return;
    }
    // A copy on the host, whose kernels can conjugate and negate every dtype.
    values = onFlagos(values) ? readSpan(values) : values.clone();
    if (conjugate && values.is_complex()) {
        values = values.conj_physical();
    }
    if (negate) {
        values = values.neg();
    }
    copyPlain(target, values, false);
}

void checkShapes(const at::Tensor& destination, const at::Tensor& source) {
    if (destination.sizes() == source.sizes()) {
        return;
    }
    const auto shape = at::infer_size_dimvector(destination.sizes(), source.sizes());
    TORCH_CHECK(
        destination.sizes() == at::IntArrayRef(shape),
        "output with shape ",
        destination.sizes(),
        " doesn't match the broadcast shape ",
        at::IntArrayRef(shape));
}

bool isPlain(const at::Tensor& tensor) {
    return (onFlagos(tensor) || tensor.device().is_cpu()) && tensor.layout() == at::kStrided &&
           !tensor.is_quantized() && !tensor._is_zerotensor();
}

// copy_ is the entry, and not only _copy_from to which PyTorch's own copy_ redispatches: PyTorch resolves lazy
// bits before _copy_from by calling clone, which calls copy_ and so would never end.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
    if (C10_UNLIKELY(!isPlain(self) || !isPlain(source))) {
        return at::native::copy_(self, source, non_blocking);
    }
    copyInto(self, source, non_blocking);
    return self;
}

at::Tensor copyFrom(const at::Tensor& self, const at::Tensor& destination, bool non_blocking) {
    copyInto(destination, self, non_blocking);
    return destination;
}

at::Tensor copyFromAndResize(const at::Tensor& self, const at::Tensor& destination) {
    destination.resize_(self.sizes());
    copyInto(destination, self);
    return destination;
}

constexpr NativeOperator kOperators[] = {
    {"copy_", &kernel<&copy>},
    {"_copy_from", &kernel<&copyFrom>},
    {"_copy_from_and_resize", &kernel<&copyFromAndResize>},
};

} // namespace

void copyInto(const at::Tensor& destination, const at::Tensor& source, bool non_blocking) {
    checkShapes(destination, source);
    if (destination.numel() == 0 || destination.is_same(source)) {
        return;
    }
    at::assert_no_internal_overlap(destination);
    at::assert_no_partial_overlap(destination, source);
    if (C10_UNLIKELY(source.is_conj() || source.is_neg() || destination.is_conj() || destination.is_neg())) {
        copyResolvingBits(destination, source, non_blocking);
    } else {
        copyPlain(destination, source, non_blocking);
    }
}

std::span<const NativeOperator> copyOperators() {
    return kOperators;
}

} // namespace torch_fl
