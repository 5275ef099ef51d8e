// torch_fl._C: one line of binding per function, and no logic. Waits release the GIL.

#include "aten/routing.h"
#include "profiler/unavailable_device_tracer.h"
#include "runtime/accelerator/kunlunxin/device.h"
#include "runtime/device_allocator.h"
#include "runtime/generator.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <string>
#include <utility>

namespace py = pybind11;

namespace {

using c10::DeviceIndex;
using torch_fl::FlagosStream;

// (stream id, device index, device type), which torch.Stream takes as keywords.
py::tuple streamIdentity(const FlagosStream& stream) {
    const auto identity = stream.stream.pack3();
    return py::make_tuple(
        identity.stream_id, static_cast<int>(identity.device_index), static_cast<int>(identity.device_type));
}

py::tuple versionTuple(const torch_fl::kunlunxin::Version& version) {
    return py::make_tuple(version.major, version.minor);
}

py::dict deviceProperties(DeviceIndex device) {
    const auto properties = torch_fl::kunlunxin::deviceProperties(torch_fl::kunlunxin::resolveDeviceIndex(device));
    py::dict result;
    result["name"] = properties.name;
    result["model"] = properties.model;
    result["total_memory"] = properties.total_memory;
    result["l3_memory"] = properties.l3_memory;
    result["cluster_count"] = properties.cluster_count;
    result["sdnn_count"] = properties.sdnn_count;
    result["pci_address"] =
        py::make_tuple(properties.pci.domain, properties.pci.bus, properties.pci.slot, properties.pci.function);
    result["driver_version"] = versionTuple(properties.driver);
    result["runtime_version"] = versionTuple(properties.runtime);
    return result;
}

// First use from Python: PyTorch's own fork handler too, so that its factories ask again in a forked child.
void initialize() {
    torch_fl::requireUsable();
    torch_fl::kunlunxin::resolveDeviceIndex(-1);
    torch::utils::register_fork_handler_for_device_init(c10::DeviceType::PrivateUse1);
}

// A negative index changes nothing.
DeviceIndex exchangeDevice(DeviceIndex device) {
    return device < 0 ? torch_fl::kunlunxin::resolveDeviceIndex(-1) : torch_fl::kunlunxin::exchangeDevice(device);
}

py::object defaultGenerator(DeviceIndex device) {
    return py::reinterpret_steal<py::object>(THPGenerator_Wrap(torch_fl::defaultGenerator(device)));
}

void setCurrentStream(c10::StreamId id, DeviceIndex device) {
    torch_fl::exchangeCurrentStream(
        c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id));
}

template <typename Function>
auto bound(Function&& function) {
    return torch::wrap_pybind_function(std::forward<Function>(function));
}

template <typename Function>
auto boundWithoutGil(Function&& function) {
    return torch::wrap_pybind_function_no_gil(std::forward<Function>(function));
}

} // namespace

PYBIND11_MODULE(_C, module) {
    try {
        torch_fl::registerRuntime();
    } catch (const c10::Error& error) {
        throw py::import_error(error.what_without_backtrace());
    }

    module.def("_device_count", &torch_fl::kunlunxin::deviceCount);
    module.def("_device_count_failure", bound(torch_fl::kunlunxin::deviceCountFailure));
    module.def("_device_properties", bound(deviceProperties));
    module.def("_current_device", bound([] { return torch_fl::kunlunxin::resolveDeviceIndex(-1); }));
    module.def("_set_device", bound(torch_fl::kunlunxin::setDevice));
    module.def("_exchange_device", bound(exchangeDevice));

    module.def("_initialize", bound(initialize));
    module.def("_is_initialized", &torch_fl::isInitialized);
    module.def("_is_in_bad_fork", &torch_fl::isInBadFork);

    module.def("_synchronize", boundWithoutGil(torch_fl::synchronizeDevice));
    module.def(
        "_current_stream", bound([](DeviceIndex device) { return streamIdentity(torch_fl::currentStream(device)); }));
    module.def(
        "_default_stream", bound([](DeviceIndex device) { return streamIdentity(torch_fl::defaultStream(device)); }));
    module.def("_set_stream", bound(setCurrentStream));

    module.def("_empty_cache", boundWithoutGil([] { torch_fl::deviceAllocator().emptyCache(); }));
    module.def("_get_default_generator", bound(defaultGenerator));
    module.def("_manual_seed_all", bound(torch_fl::seedDefaultGenerators));
    module.def("_profiler_start", bound([] { torch_fl::DeviceTracer::start(); }));

    module.def("_register_operators", bound(torch_fl::registerOperators));
    module.def("_registered_operators", bound(torch_fl::registeredOperators));
}
