#include "aten/autocast.h"

// The lists call overloads by name, of most operators there are: this file alone pays for all of them.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

namespace torch_fl {

namespace {

// A sigmoid's output in half precision reaches 0 and 1, where this loss is infinite.
at::Tensor refuseBinaryCrossEntropy(
    const at::Tensor& /*self*/, const at::Tensor& /*target*/, const std::optional<at::Tensor>& /*weight*/,
    int64_t /*reduction*/) {
    TORCH_CHECK(
        false,
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: use "
        "torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which take the values "
        "from before the sigmoid");
}

} // namespace

// The macros of autocast_mode.h register into a library named `m`, in the namespace at::autocast.
void registerAutocast(torch::Library& m) {
    using namespace at;
    using namespace at::autocast;

#define TORCH_FL_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define TORCH_FL_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define TORCH_FL_FLOAT32_BY_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define TORCH_FL_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

    AT_FORALL_LOWER_PRECISION_FP(TORCH_FL_LOWER_PRECISION)
    AT_FORALL_FP32(TORCH_FL_FLOAT32)
    AT_FORALL_FP32_SET_OPT_DTYPE(TORCH_FL_FLOAT32_BY_DTYPE)
    AT_FORALL_PROMOTE(TORCH_FL_PROMOTE)
    AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)

#undef TORCH_FL_LOWER_PRECISION
#undef TORCH_FL_FLOAT32
#undef TORCH_FL_FLOAT32_BY_DTYPE
#undef TORCH_FL_PROMOTE

    m.impl("binary_cross_entropy", TORCH_FN(refuseBinaryCrossEntropy));
}

} // namespace torch_fl
