#include "aten/cpu_fallback.h"

#include "runtime/generator.h"

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>
#include <c10/util/env.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace torch_fl {

namespace {

bool logsFallbacks() {
    static const bool logs = c10::utils::check_env("FLAGOS_LOG_FALLBACK").value_or(false);
    return logs;
}

// True the first time for each name.
bool isFirst(const std::string& name) {
    static std::mutex mutex;
    static std::unordered_set<std::string> seen;
    const std::lock_guard<std::mutex> lock(mutex);
    return seen.insert(name).second;
}

bool onFlagos(const at::Tensor& tensor) {
    return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

bool startsWith(std::string_view text, std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
}

// Operators that take some of their tensors on the CPU by design: indices and masks, sequence lengths, and the
// foreach family, which treats each position of its lists apart.
bool mixesDevices(std::string_view name) {
    static constexpr std::string_view kNames[] = {
        "aten::index",
        "aten::index_put",
        "aten::index_put_",
        "aten::_index_put_impl_",
        "aten::_unsafe_index",
        "aten::_unsafe_index_put",
        "aten::_pack_padded_sequence",
        "aten::_ctc_loss",
        "aten::_ctc_loss_backward",
    };
    return startsWith(name, "aten::_foreach_") ||
           std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Calls `visit` with each tensor among the arguments, lists included, and its argument's name.
template <typename Visit>
void forEachTensor(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments, Visit&& visit) {
    for (size_t i = 0; i < arguments.size(); ++i) {
        const c10::IValue& value = arguments[i];
        const char* const name = schema.arguments()[i].name().c_str();
        if (value.isTensor()) {
            visit(value.toTensor(), name);
        } else if (value.isTensorList()) {
            for (const at::Tensor& tensor : value.toTensorVector()) {
                visit(tensor, name);
            }
        } else if (value.isOptionalTensorList()) {
            for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
                if (tensor.has_value()) {
                    visit(*tensor, name);
                }
            }
        }
    }
}

void checkDevices(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments) {
    if (mixesDevices(schema.name())) {
        return;
    }
    std::optional<c10::Device> common;
    forEachTensor(schema, arguments, [&](const at::Tensor& tensor, const char* name) {
        if (tensor.defined() && (tensor.dim() != 0 || onFlagos(tensor))) {
            c10::impl::check_and_update_common_device(common, tensor, schema.name().c_str(), name);
        }
    });
}

c10::DeviceIndex firstDevice(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments) {
    c10::DeviceIndex device = -1;
    forEachTensor(schema, arguments, [&](const at::Tensor& tensor, const char*) {
        if (device < 0 && onFlagos(tensor)) {
            device = tensor.device().index();
        }
    });
    return device;
}

bool isGenerator(const c10::Argument& argument) {
    const auto* type = argument.type().get();
    if (const auto* optional = type->castRaw<c10::OptionalType>()) {
        type = optional->getElementType().get();
    }
    return type->kind() == c10::TypeKind::GeneratorType;
}

// CPU kernels refuse generators of other devices, and without one they would use the CPU's.
void useDeviceGenerator(const c10::FunctionSchema& schema, torch::jit::Stack& stack, size_t begin) {
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
        if (!isGenerator(schema.arguments()[i])) {
            continue;
        }
        c10::IValue& value = stack[begin + i];
        const std::optional<at::Generator> given =
            value.isNone() ? std::nullopt : std::optional<at::Generator>(value.toGenerator());
        const c10::ArrayRef<c10::IValue> arguments(stack.data() + begin, schema.arguments().size());
        value = cpuGenerator(given, firstDevice(schema, arguments));
    }
}

} // namespace

void announceFallback(const char* name, const char* overload) {
    if (C10_LIKELY(!logsFallbacks())) {
        return;
    }
    const std::string full = *overload == '\0' ? std::string(name) : std::string(name) + "." + overload;
    if (isFirst(full)) {
        TORCH_WARN(full, " has no flagos kernel for this call and runs on the CPU");
    }
}

void cpuFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = op.schema();
    announceFallback(schema.name().c_str(), schema.overload_name().c_str());
    const size_t count = schema.arguments().size();
    const size_t begin = stack->size() - count;
    checkDevices(schema, c10::ArrayRef<c10::IValue>(stack->data() + begin, count));
    useDeviceGenerator(schema, *stack, begin);
    at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

} // namespace torch_fl
