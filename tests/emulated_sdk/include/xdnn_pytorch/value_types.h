// Value types that the operators of xdnn_pytorch take. What public clients write compiles against them: brace
// initialisation of Tensor in the order sizes, strides, type, data; Scalar::create; optional<T>; StringView.
// Everything else about their layout is our inference.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace xdnn_pytorch {

enum class ScalarType : int32_t {
    kbool,
    kuint8,
    kint8,
    kint16,
    kint32,
    kint64,
    kfloat32,
    kfloat16,
    kbfloat16,
    kfloat64,
    UnknownScalarType,
};

// A strided view of device memory; strides count elements. A tensor without dimensions is {{1}, {1}, type, data} and
// an absent one {{0}, {0}, ScalarType::kfloat32, nullptr}.
struct Tensor {
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    ScalarType type = ScalarType::UnknownScalarType;
    void* data = nullptr;

    template <typename T>
    T* ptr() const {
        return static_cast<T*>(data);
    }
};

// A number from the host. There is no way to make a double-precision one: only the two creators are publicly known.
class Scalar {
public:
    Scalar() = default;

    static Scalar create(int64_t value) {
        Scalar scalar;
        scalar.type = ScalarType::kint64;
        std::memcpy(&scalar.data, &value, sizeof value);
        return scalar;
    }
    static Scalar create(float value) {
        Scalar scalar;
        scalar.type = ScalarType::kfloat32;
        std::memcpy(&scalar.data, &value, sizeof value);
        return scalar;
    }

    ScalarType type = ScalarType::kint64;
    int64_t data = 0; // the value's bytes, zero padded
};

template <typename T>
class optional {
public:
    optional() = default;
    optional(const T& value) : has_value_(true), value_(value) {} // implicit: a plain value stands for itself

    bool has_value() const { return has_value_; }
    explicit operator bool() const { return has_value_; }
    const T& value() const { return value_; } // the default T when there is none

private:
    bool has_value_ = false;
    T value_{};
};

class StringView {
public:
    StringView() = default;
    StringView(const char* text) : text_(text) {} // implicit, as clients use it

    const std::string& str() const { return text_; }

private:
    std::string text_;
};

// Publicly known by name only: clients default-construct them.
class Generator {};
class Device {};

} // namespace xdnn_pytorch
