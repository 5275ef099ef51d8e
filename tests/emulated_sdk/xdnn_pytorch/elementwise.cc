#include "elementwise.h"

#include <cstdlib>
#include <cstring>

namespace xpuemu {

namespace {

constexpr size_t kStateSize = 16;

template <int N>
struct Elementwise {
    Loop<N> loop;
    LineFunction line;
    alignas(8) std::array<std::byte, kStateSize> state;

    void operator()() const {
        loop.run([this](const auto& pointers, const auto& steps, int64_t count) {
            line(state.data(), pointers.data(), steps.data(), count);
        });
    }
};

} // namespace

template <int N>
Error_t submitLines(
    Call& call, const std::array<const Operand*, N>& operands, LineFunction line, const void* state,
    size_t state_size) {
    if (state_size > kStateSize) {
        std::abort(); // a kernel of this library captures too much
    }
    Elementwise<N> kernel{};
    XPUEMU_RETURN_IF_ERROR(makeLoop<N>(call, operands, &kernel.loop));
    kernel.line = line;
    if (state_size != 0) {
        std::memcpy(kernel.state.data(), state, state_size);
    }
    return operands[0]->count == 0 ? SUCCESS : call.submit(kernel);
}

template Error_t submitLines<1>(Call&, const std::array<const Operand*, 1>&, LineFunction, const void*, size_t);
template Error_t submitLines<2>(Call&, const std::array<const Operand*, 2>&, LineFunction, const void*, size_t);
template Error_t submitLines<3>(Call&, const std::array<const Operand*, 3>&, LineFunction, const void*, size_t);

} // namespace xpuemu
