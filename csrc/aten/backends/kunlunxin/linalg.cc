#include "aten/backends/kunlunxin/adaptor.h"
#include "aten/backends/kunlunxin/operators.h"
#include "aten/backends/kunlunxin/transfer.h"
#include "aten/copy.h"
#include "aten/cpu_fallback.h"
#include "aten/structured.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/mm_meta.h>
#include <ATen/ops/mm_ops.h>

namespace torch_fl::kunlunxin {

namespace {

using at::Scalar;
using at::ScalarType;
using at::Tensor;

bool shareMemory(const Tensor& a, const Tensor& b) {
    return a.storage().is_alias_of(b.storage());
}

// A product must not overwrite what it still reads: `out` itself, or memory of its own when an input shares
// storage with it.
Tensor separate(const Tensor& out, const Tensor& first, const Tensor& second) {
    return shareMemory(out, first) || shareMemory(out, second) ? emptyLike(out) : out;
}

bool finish(bool done, const Tensor& result, const Tensor& out) {
    if (done && !result.is_same(out)) {
        copyInto(out, result);
    }
    return done;
}

// The meta functions check shapes; dtypes that differ are left to the CPU kernels, which refuse them.
bool computesProduct(const Tensor& first, const Tensor& second) {
    return computesFloat(first.scalar_type()) && first.scalar_type() == second.scalar_type();
}

bool computesProduct(const Tensor& added, const Tensor& first, const Tensor& second) {
    return computesProduct(added, first) && computesProduct(first, second);
}

bool computeMm(const Tensor& self, const Tensor& other, const Tensor& out) {
    if (out.numel() == 0) {
        return true;
    }
    if (self.numel() == 0) {
        return fill(out, 0);
    }
    const Tensor result = separate(out, self, other);
    return finish(TORCH_FL_XDNN(mm, out.device().index(), self, other, result), result, out);
}

bool computeBmm(const Tensor& self, const Tensor& other, const Tensor& out) {
    if (out.numel() == 0) {
        return true;
    }
    if (self.numel() == 0) {
        return fill(out, 0);
    }
    const Tensor result = separate(out, self, other);
    return finish(TORCH_FL_XDNN(bmm, out.device().index(), self, other, result), result, out);
}

Tensor mm(const Tensor& self, const Tensor& mat2) {
    if (computesProduct(self, mat2)) {
        SameDevice("mm").check(self, "self").check(mat2, "mat2");
        Functional<at::meta::structured_mm> op;
        op.meta(self, mat2);
        if (computeMm(self, mat2, op.output())) {
            return op.output();
        }
    }
    return onCpu<at::_ops::mm>(self, mat2);
}

Tensor& mmOut(const Tensor& self, const Tensor& mat2, Tensor& out) {
    if (computesProduct(self, mat2)) {
        SameDevice("mm").check(out, "out").check(self, "self").check(mat2, "mat2");
        using Given = IntoGiven<at::meta::structured_mm>;
        Given op(Given::Kind::Out, out);
        op.meta(self, mat2);
        if (computeMm(self, mat2, out)) {
            return out;
        }
    }
    return onCpu<at::_ops::mm_out>(self, mat2, out);
}

Tensor bmm(const Tensor& self, const Tensor& mat2) {
    if (computesProduct(self, mat2)) {
        SameDevice("bmm").check(self, "self").check(mat2, "mat2");
        Functional<at::meta::structured_bmm> op;
        op.meta(self, mat2);
        if (computeBmm(self, mat2, op.output())) {
            return op.output();
        }
    }
    return onCpu<at::_ops::bmm>(self, mat2);
}

Tensor& bmmOut(const Tensor& self, const Tensor& mat2, Tensor& out) {
    if (computesProduct(self, mat2)) {
        SameDevice("bmm").check(out, "out").check(self, "self").check(mat2, "mat2");
        using Given = IntoGiven<at::meta::structured_bmm>;
        Given op(Given::Kind::Out, out);
        op.meta(self, mat2);
        if (computeBmm(self, mat2, out)) {
            return out;
        }
    }
    return onCpu<at::_ops::bmm_out>(self, mat2, out);
}

// beta * self + alpha * (mat1 @ mat2) into `out`, which may be `self`.
bool computeAddmm(
    const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
    const Tensor& out) {
    if (out.numel() == 0) {
        return true;
    }
    const ScalarType dtype = out.scalar_type();
    const c10::DeviceIndex device = out.device().index();
    const Tensor added = self.expand(out.sizes());
    if (mat1.numel() == 0) {
        // NaN in self counts for nothing when beta is 0.
        return beta.equal(0) ? fill(out, 0) : TORCH_FL_XDNN(mul_scalar, device, added, numberFor(dtype, beta), out);
    }
    const Tensor result = separate(out, mat1, mat2);
    return finish(
        TORCH_FL_XDNN(addmm, device, added, mat1, mat2, numberFor(dtype, beta), numberFor(dtype, alpha), result),
        result,
        out);
}

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
    if (computesProduct(self, mat1, mat2)) {
        SameDevice("addmm").check(self, "self").check(mat1, "mat1").check(mat2, "mat2");
        Functional<at::meta::structured_addmm> op;
        op.meta(self, mat1, mat2, beta, alpha);
        if (computeAddmm(self, mat1, mat2, beta, alpha, op.output())) {
            return op.output();
        }
    }
    return onCpu<at::_ops::addmm>(self, mat1, mat2, beta, alpha);
}

Tensor& addmmOut(
    const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha, Tensor& out) {
    if (computesProduct(self, mat1, mat2)) {
        SameDevice("addmm").check(out, "out").check(self, "self").check(mat1, "mat1").check(mat2, "mat2");
        using Given = IntoGiven<at::meta::structured_addmm>;
        Given op(Given::Kind::Out, out);
        op.meta(self, mat1, mat2, beta, alpha);
        if (computeAddmm(self, mat1, mat2, beta, alpha, out)) {
            return out;
        }
    }
    return onCpu<at::_ops::addmm_out>(self, mat1, mat2, beta, alpha, out);
}

Tensor& addmmInPlace(Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
    if (computesProduct(self, mat1, mat2)) {
        SameDevice("addmm_").check(self, "self").check(mat1, "mat1").check(mat2, "mat2");
        using Given = IntoGiven<at::meta::structured_addmm>;
        Given op(Given::Kind::InPlace, self);
        op.meta(self, mat1, mat2, beta, alpha);
        at::assert_no_internal_overlap(self);
        if (computeAddmm(self, mat1, mat2, beta, alpha, self)) {
            return self;
        }
    }
    return onCpu<at::_ops::addmm_>(self, mat1, mat2, beta, alpha);
}

constexpr NativeOperator kOperators[] = {
    {"mm", &kernel<&mm>},
    {"mm.out", &kernel<&mmOut>},
    {"bmm", &kernel<&bmm>},
    {"bmm.out", &kernel<&bmmOut>},
    {"addmm", &kernel<&addmm>},
    {"addmm.out", &kernel<&addmmOut>},
    {"addmm_", &kernel<&addmmInPlace>},
};

} // namespace

std::span<const NativeOperator> linalgOperators() {
    return kOperators;
}

} // namespace torch_fl::kunlunxin
