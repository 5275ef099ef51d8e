// Matrix products, on libxpu_blas.so.

#include "xdnn_pytorch/xdnn_pytorch.h"

#include "common/export.h"
#include "components/blas/blas.h"
#include "loop.h"

using namespace xpuemu;

namespace {

// `operand` without its first dimension when it has three: one matrix of a batch.
XpuBlasMatrix matrixOf(const Operand& operand) {
    return {operand.data, operand.stride(operand.dims() - 2), operand.stride(operand.dims() - 1)};
}

// The sizes that a and b give to the product, without operands' addresses.
XpuBlasGemm problemOf(const Operand& a, const Operand& b, const Operand& out) {
    XpuBlasGemm problem{};
    problem.type = out.type();
    problem.m = a.size(a.dims() - 2);
    problem.k = a.size(a.dims() - 1);
    problem.n = b.size(b.dims() - 1);
    problem.a = matrixOf(a);
    problem.b = matrixOf(b);
    problem.out = matrixOf(out);
    problem.alpha = 1;
    problem.integer_alpha = 1;
    return problem;
}

// Binds a product of matrices, or of two batches of them, and checks types and shapes.
Error_t bindProduct(
    Call& call, const Tensor& a, const Tensor& b, Tensor& out, int64_t dims, Operand* bound_a, Operand* bound_b,
    Operand* bound_out) {
    XPUEMU_RETURN_IF_ERROR(call.bind(a, bound_a));
    XPUEMU_RETURN_IF_ERROR(call.bind(b, bound_b));
    XPUEMU_RETURN_IF_ERROR(call.bind(out, bound_out));
    if (!xpu_blas_supports(out.type)) {
        return call.fail(NOT_IMPLEMENT);
    }
    if (a.type != out.type || b.type != out.type || bound_a->dims() != dims || bound_b->dims() != dims ||
        bound_out->dims() != dims) {
        return call.fail(INVALID_PARAM);
    }
    const int64_t row = dims - 2;
    const int64_t column = dims - 1;
    const bool same_batch =
        dims == 2 || (bound_a->size(0) == bound_b->size(0) && bound_a->size(0) == bound_out->size(0));
    const bool fits = bound_a->size(column) == bound_b->size(row) && bound_out->size(row) == bound_a->size(row) &&
                      bound_out->size(column) == bound_b->size(column);
    return same_batch && fits ? SUCCESS : call.fail(INVALID_PARAM);
}

Error_t multiply(Call& call, const Tensor& self, const Tensor& mat2, Tensor& out) {
    Operand a;
    Operand b;
    Operand to;
    XPUEMU_RETURN_IF_ERROR(bindProduct(call, self, mat2, out, 2, &a, &b, &to));
    if (to.count == 0) {
        return SUCCESS;
    }
    return call.submit([problem = problemOf(a, b, to)] { xpu_blas_gemm(&problem); });
}

Error_t multiplyAndAdd(
    Call& call, const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
    Tensor& out) {
    Operand a;
    Operand b;
    Operand to;
    Operand addend;
    XPUEMU_RETURN_IF_ERROR(bindProduct(call, mat1, mat2, out, 2, &a, &b, &to));
    XPUEMU_RETURN_IF_ERROR(call.bind(self, &addend));
    const bool floating = dispatchFloating(out.type, false, [](auto) { return true; });
    if (self.type != out.type || addend.dims() > 2 || (!floating && (isFloating(beta) || isFloating(alpha)))) {
        return call.fail(INVALID_PARAM);
    }
    XpuBlasGemm problem = problemOf(a, b, to);
    problem.alpha = scalarToFloat(alpha);
    problem.beta = scalarToFloat(beta);
    problem.integer_alpha = scalarToInteger(alpha);
    problem.integer_beta = scalarToInteger(beta);
    const int64_t row = broadcastStride(addend, out.sizes, 0);
    const int64_t column = broadcastStride(addend, out.sizes, 1);
    if (row < 0 || column < 0) {
        return call.fail(INVALID_PARAM);
    }
    problem.addend = {addend.data, row / addend.element_size, column / addend.element_size};
    return to.count == 0 ? SUCCESS : call.submit([problem] { xpu_blas_gemm(&problem); });
}

Error_t multiplyBatch(Call& call, const Tensor& self, const Tensor& mat2, Tensor& out) {
    Operand a;
    Operand b;
    Operand to;
    XPUEMU_RETURN_IF_ERROR(bindProduct(call, self, mat2, out, 3, &a, &b, &to));
    if (to.count == 0) {
        return SUCCESS;
    }
    const int64_t size = to.element_size;
    return call.submit([problem = problemOf(a, b, to),
                        batch = to.size(0),
                        a_step = a.stride(0) * size,
                        b_step = b.stride(0) * size,
                        out_step = to.stride(0) * size] {
        XpuBlasGemm one = problem;
        for (int64_t i = 0; i < batch; ++i) {
            one.a.data = static_cast<char*>(problem.a.data) + i * a_step;
            one.b.data = static_cast<char*>(problem.b.data) + i * b_step;
            one.out.data = static_cast<char*>(problem.out.data) + i * out_step;
            xpu_blas_gemm(&one);
        }
    });
}

} // namespace

namespace xdnn_pytorch {

XPUEMU_EXPORT int mm(Context* ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
    return callOperator(ctx, Function::mm, [&](Call& call) { return multiply(call, self, mat2, out); });
}

XPUEMU_EXPORT int addmm(
    Context* ctx, const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
    Tensor& out) {
    return callOperator(
        ctx, Function::addmm, [&](Call& call) { return multiplyAndAdd(call, self, mat1, mat2, beta, alpha, out); });
}

XPUEMU_EXPORT int bmm(Context* ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
    return callOperator(ctx, Function::bmm, [&](Call& call) { return multiplyBatch(call, self, mat2, out); });
}

} // namespace xdnn_pytorch
