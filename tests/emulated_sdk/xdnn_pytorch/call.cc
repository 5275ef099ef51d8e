#include "call.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "common/export.h"

namespace xpuemu {

constexpr std::string_view kNames[] = {
#define XPUEMU_NAME(name) #name,
    XPUEMU_FUNCTIONS(XPUEMU_NAME)
#undef XPUEMU_NAME
};

static constinit std::array<std::atomic<uint64_t>, std::size(kNames)> launches{};

static size_t index(Function function) {
    return static_cast<size_t>(function);
}

// The vendor's library logs when this variable is a mask of what to log; any value but 0 does it here.
static bool debugging() {
    static const bool wanted = [] {
        const char* value = std::getenv("XPUAPI_DEBUG");
        return value != nullptr && std::strcmp(value, "") != 0 && std::strcmp(value, "0") != 0;
    }();
    return wanted;
}

// Bit per ScalarType that XPUEMU_NOT_IMPLEMENT lists, as in "bfloat16,float16".
static uint32_t refusedTypes() {
    static const uint32_t refused = [] {
        constexpr std::string_view kTypes[] = {
            "bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float16", "bfloat16", "float64"};
        const char* value = std::getenv("XPUEMU_NOT_IMPLEMENT");
        std::string_view rest(value == nullptr ? "" : value);
        uint32_t bits = 0;
        while (!rest.empty()) {
            const std::string_view entry = rest.substr(0, rest.find(','));
            rest.remove_prefix(entry.size() < rest.size() ? entry.size() + 1 : rest.size());
            for (size_t type = 0; type < std::size(kTypes); ++type) {
                bits |= entry == kTypes[type] ? 1u << type : 0u;
            }
        }
        return bits;
    }();
    return refused;
}

static const char* headline(Error_t error) {
    switch (error) {
    case INVALID_PARAM:
        return "[INVALID PARAMETER]";
    case RUNTIME_ERROR:
        return "[RUNTIME ERROR]";
    case NO_ENOUGH_WORKSPACE:
        return "[NO ENOUGH WORKSPACE]";
    case NOT_IMPLEMENT:
        return "[NOT IMPLEMENTED]";
    case SUCCESS:
        break;
    }
    return "[SUCCESS]";
}

Error_t Call::begin() {
    if (context_ == nullptr) {
        return fail(INVALID_PARAM);
    }
    return xpuemu_stream_device(context_->xpu_stream, &device_) == 0 ? SUCCESS : fail(RUNTIME_ERROR);
}

Error_t Call::bind(const Tensor& tensor, Operand* operand, std::source_location where) {
    const int64_t element_size = elementSize(tensor.type);
    if (element_size == 0 || (refusedTypes() >> static_cast<unsigned>(tensor.type) & 1u) != 0) {
        return fail(NOT_IMPLEMENT, where);
    }
    if (tensor.sizes.size() != tensor.strides.size()) {
        return fail(INVALID_PARAM, where);
    }
    int64_t count = 1;
    int64_t extent = 1; // elements from the first to the last one
    bool sane = true;
    for (size_t dim = 0; dim < tensor.sizes.size(); ++dim) {
        const int64_t size = tensor.sizes[dim];
        int64_t reach = 0;
        sane = sane && size >= 0 && tensor.strides[dim] >= 0 && !__builtin_mul_overflow(count, size, &count) &&
               !__builtin_mul_overflow(size - 1, tensor.strides[dim], &reach) &&
               (size == 0 || !__builtin_add_overflow(extent, reach, &extent));
    }
    int64_t bytes = 0;
    if (!sane || __builtin_mul_overflow(extent, element_size, &bytes)) {
        return fail(INVALID_PARAM, where);
    }
    *operand = {&tensor, nullptr, count, element_size};
    if (count == 0) {
        return SUCCESS;
    }
    operand->data = static_cast<char*>(xpuemu_host_view(tensor.data, static_cast<uint64_t>(bytes)));
    if (operand->data == nullptr || xpuemu_pointer_device(tensor.data) != device_) {
        return fail(INVALID_PARAM, where);
    }
    return SUCCESS;
}

void Call::finish(Error_t error) const {
    const size_t number = index(function_);
    if (error == SUCCESS) {
        launches[number].fetch_add(1, std::memory_order_relaxed);
    }
    if (!debugging()) {
        return;
    }
    const std::string name(kNames[number]);
    if (error == SUCCESS) {
        std::fprintf(stderr, "xdnn_pytorch_%s(ctx, api::kXPU3)\n", name.c_str());
    } else {
        std::fprintf(
            stderr,
            "%s xdnn_pytorch_%s(ctx, api::kXPU3) error code=%d xdnn_pytorch_wrapper/%s.cpp:%u\n",
            headline(error),
            name.c_str(),
            error,
            name.c_str(),
            line_);
    }
}

float scalarToFloat(const Scalar& scalar) {
    if (isFloating(scalar)) {
        float value = 0;
        std::memcpy(&value, &scalar.data, sizeof value);
        return value;
    }
    return static_cast<float>(scalar.data);
}

int64_t scalarToInteger(const Scalar& scalar) {
    if (!isFloating(scalar)) {
        return scalar.data;
    }
    const float value = scalarToFloat(scalar);
    constexpr float kLimit = 0x1p63f;
    return value >= -kLimit && value < kLimit ? static_cast<int64_t>(value) : INT64_MIN;
}

} // namespace xpuemu

// Successful calls of an operator in this process, or UINT64_MAX for a name that is none.
extern "C" XPUEMU_EXPORT uint64_t xpuemu_launches(const char* function) {
    for (size_t i = 0; function != nullptr && i < std::size(xpuemu::kNames); ++i) {
        if (xpuemu::kNames[i] == function) {
            return xpuemu::launches[i].load();
        }
    }
    return UINT64_MAX;
}
