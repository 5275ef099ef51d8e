#include "aten/routing.h"

#include "aten/autocast.h"
#include "aten/backends/kunlunxin/operators.h"
#include "aten/composed.h"
#include "aten/copy.h"
#include "aten/cpu_fallback.h"
#include "aten/native_operator.h"
#include "aten/tensor.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>

namespace torch_fl {

namespace {

constexpr const char* kFallbackRoute = "none";

using Table = std::map<std::string, const NativeOperator*>;

Table tableOf(std::initializer_list<std::span<const NativeOperator>> families) {
    Table table;
    for (const auto& family : families) {
        for (const NativeOperator& entry : family) {
            TORCH_INTERNAL_ASSERT(table.emplace(entry.name, &entry).second, entry.name, " has two kernels");
        }
    }
    return table;
}

// Route keys and the kernels behind them.
const std::map<std::string, Table>& backends() {
    static const std::map<std::string, Table> known{
        {"kunlunxin",
         tableOf(
             {kunlunxin::transferOperators(),
              kunlunxin::pointwiseOperators(),
              kunlunxin::reductionOperators(),
              kunlunxin::linalgOperators(),
              kunlunxin::lossOperators()})},
    };
    return known;
}

std::string backendNames() {
    std::string names;
    for (const auto& backend : backends()) {
        names += backend.first + ", ";
    }
    return names + kFallbackRoute;
}

std::optional<c10::OperatorHandle> findOperator(const std::string& name) {
    const size_t dot = name.find('.');
    const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
    return c10::Dispatcher::singleton().findSchema({"aten::" + name.substr(0, dot), overload});
}

// Note [Operators that PyTorch composes]
// The fallback takes what has no other kernel. PyTorch has one for each functional and in-place variant of a
// structured operator, which prepares an output and calls the out= variant: through the fallback the
// unwritten output would travel to the CPU too. It has one for layer and group norm, from other operators and
// less exact than the kernels for the CPU. Where the route says `none` the fallback is registered over those.
// Operators that PyTorch composes differentiably are left alone: a kernel would end their differentiation.
bool hidesFallback(const c10::OperatorHandle& op) {
    return !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
           (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
            op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional));
}

struct Chosen {
    std::vector<const NativeOperator*> native;
    std::vector<std::string> fallback;
};

Chosen chooseKernels(const Routes& routes) {
    Chosen chosen;
    for (const auto& [name, backend] : routes) {
        const auto op = findOperator(name);
        TORCH_CHECK(op.has_value(), "operator route ", name, " = ", backend, ": this PyTorch has no aten::", name);
        if (backend == kFallbackRoute) {
            if (hidesFallback(*op)) {
                chosen.fallback.push_back(name);
            }
            continue;
        }
        const auto table = backends().find(backend);
        TORCH_CHECK(
            table != backends().end(),
            "operator route ",
            name,
            " = ",
            backend,
            ": no backend has this name; there are: ",
            backendNames());
        const auto entry = table->second.find(name);
        TORCH_CHECK(
            entry != table->second.end(),
            "operator route ",
            name,
            " = ",
            backend,
            ": this backend has no kernel for aten::",
            name);
        chosen.native.push_back(entry->second);
    }
    return chosen;
}

struct Registry {
    // Kernels stay registered while their library lives.
    std::vector<torch::Library> libraries;
    std::vector<std::string> native;
};

Registry& registry() {
    static Registry instance;
    return instance;
}

torch::Library& addLibrary(const char* operators, c10::DispatchKey key, uint32_t line) {
    return registry().libraries.emplace_back(torch::Library::IMPL, operators, key, __FILE__, line);
}

void implement(torch::Library& library, const NativeOperator& entry) {
    library.impl(entry.name, entry.kernel());
}

} // namespace

void registerOperators(const Routes& routes) {
    Registry& registered = registry();
    TORCH_CHECK(registered.libraries.empty(), "the operators of flagos are registered already");
    const Chosen chosen = chooseKernels(routes);

    addLibrary("_", c10::DispatchKey::PrivateUse1, __LINE__)
        .fallback(torch::CppFunction::makeFromBoxedFunction<&cpuFallback>());
    addLibrary("_", c10::DispatchKey::AutocastPrivateUse1, __LINE__).fallback(torch::CppFunction::makeFallthrough());
    registerAutocast(addLibrary("aten", c10::DispatchKey::AutocastPrivateUse1, __LINE__));

    torch::Library& aten = addLibrary("aten", c10::DispatchKey::PrivateUse1, __LINE__);
    for (const auto& family : {tensorOperators(), copyOperators(), composedOperators()}) {
        for (const NativeOperator& entry : family) {
            implement(aten, entry);
        }
    }
    for (const std::string& name : chosen.fallback) {
        aten.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&cpuFallback>());
    }
    for (const NativeOperator* const entry : chosen.native) {
        implement(aten, *entry);
        registered.native.emplace_back(entry->name);
    }
    std::sort(registered.native.begin(), registered.native.end());
}

std::vector<std::string> registeredOperators() {
    return registry().native;
}

} // namespace torch_fl
