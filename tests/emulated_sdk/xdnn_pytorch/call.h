// One call of an operator: where it runs, the checks every operator makes of its tensors, and how its kernel gets onto
// the stream.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <source_location>
#include <utility>

#include "xdnn_pytorch/context.h"
#include "xdnn_pytorch/value_types.h"

#include "common/element.h"
#include "functions.h"
#include "xpurt/emulation.h"

namespace xpuemu {

using xdnn_pytorch::Scalar;
using xdnn_pytorch::Tensor;
using xpytorch::xpu::api::Context;
using namespace xpytorch::xpu::api; // Error_t's enumerators

// A tensor that has been checked: its elements lie in one allocation of the call's device. Refers to the caller's
// tensor, so it must not outlive the call; kernels capture addresses and strides by value.
struct Operand {
    const Tensor* tensor = nullptr;
    char* data = nullptr; // where the host can reach the first element; null when there is none
    int64_t count = 0;    // of elements
    int64_t element_size = 0;

    ScalarType type() const { return tensor->type; }
    int64_t dims() const { return static_cast<int64_t>(tensor->sizes.size()); }
    int64_t size(int64_t dim) const { return tensor->sizes[static_cast<size_t>(dim)]; }
    int64_t stride(int64_t dim) const { return tensor->strides[static_cast<size_t>(dim)]; }
};

class Call {
public:
    Call(Context* context, Function function) : context_(context), function_(function) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // Finds the device. Must succeed before anything else is asked.
    Error_t begin();

    // INVALID_PARAM for sizes and strides that make no sense or leave the device's allocations, NOT_IMPLEMENT for a
    // type that is none or that XPUEMU_NOT_IMPLEMENT names.
    Error_t bind(const Tensor& tensor, Operand* operand, std::source_location where = std::source_location::current());

    // `error`, remembering where it was found.
    Error_t fail(Error_t error, std::source_location where = std::source_location::current()) {
        line_ = where.line();
        return error;
    }

    // Queues `kernel`, a function object without arguments that is called once on the stream's worker.
    template <typename K>
    Error_t submit(K kernel) {
        auto owned = std::make_unique<K>(std::move(kernel));
        const int status = xpuemu_enqueue(
            context_->xpu_stream,
            [](void* argument) { (*static_cast<K*>(argument))(); },
            owned.get(),
            [](void* argument) { std::default_delete<K>()(static_cast<K*>(argument)); });
        if (status != 0) {
            return fail(RUNTIME_ERROR);
        }
        static_cast<void>(owned.release()); // the queue's now
        return SUCCESS;
    }

    // Counts a successful call; with XPUAPI_DEBUG set, says on stderr what happened.
    void finish(Error_t error) const;

private:
    Context* context_;
    Function function_;
    int device_ = -1;
    unsigned line_ = 0;
};

// Runs `body`, which answers an Error_t for a begun call. Throws nothing.
template <typename F>
int callOperator(Context* context, Function function, F body) {
    Call call(context, function);
    Error_t error = call.begin();
    if (error == SUCCESS) {
        try {
            error = body(call);
        } catch (const std::bad_alloc&) {
            error = call.fail(NO_ENOUGH_WORKSPACE);
        }
    }
    call.finish(error);
    return error;
}

// Scalar as a number of the given kind.
float scalarToFloat(const Scalar& scalar);
int64_t scalarToInteger(const Scalar& scalar);
inline bool isFloating(const Scalar& scalar) {
    return scalar.type == ScalarType::kfloat32;
}

} // namespace xpuemu

// Leaves the enclosing operator with the error of a check.
#define XPUEMU_RETURN_IF_ERROR(expression)                                                                             \
    do {                                                                                                               \
        if (const ::xpytorch::xpu::api::Error_t error_ = (expression); error_ != ::xpytorch::xpu::api::SUCCESS) {      \
            return error_;                                                                                             \
        }                                                                                                              \
    } while (false)
