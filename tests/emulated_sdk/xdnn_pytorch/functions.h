// The operators of this library, for counting their launches.
#pragma once

namespace xpuemu {

#define XPUEMU_FUNCTIONS(X)                                                                                            \
    X(add_tensor)                                                                                                      \
    X(add_scalar)                                                                                                      \
    X(sub_tensor)                                                                                                      \
    X(sub_scalar)                                                                                                      \
    X(mul_tensor)                                                                                                      \
    X(mul_scalar)                                                                                                      \
    X(div_tensor)                                                                                                      \
    X(div_tensor_mode)                                                                                                 \
    X(div_scalar)                                                                                                      \
    X(fill__scalar)                                                                                                    \
    X(cast)                                                                                                            \
    X(relu)                                                                                                            \
    X(threshold_backward)                                                                                              \
    X(sum)                                                                                                             \
    X(sum_dim_IntList)                                                                                                 \
    X(mean)                                                                                                            \
    X(mean_dim)                                                                                                        \
    X(log_softmax)                                                                                                     \
    X(_log_softmax_backward_data)                                                                                      \
    X(nll_loss)                                                                                                        \
    X(nll_loss_backward)                                                                                               \
    X(addmm)                                                                                                           \
    X(mm)                                                                                                              \
    X(bmm)

enum class Function {
#define XPUEMU_ENUMERATOR(name) name,
    XPUEMU_FUNCTIONS(XPUEMU_ENUMERATOR)
#undef XPUEMU_ENUMERATOR
};

} // namespace xpuemu
