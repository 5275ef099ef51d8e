#include "autoload/python.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/utils/device_lazy_init.h>

namespace torch_fl {

void loadBackend() {
    torch::utils::device_lazy_init(c10::DeviceType::PrivateUse1);
}

c10::DeviceIndex countDevices() noexcept {
    namespace py = pybind11;
    if (Py_IsInitialized() == 0) {
        return 0;
    }
    const py::gil_scoped_acquire gil;
    try {
        return py::module_::import("torch.flagos").attr("device_count")().cast<c10::DeviceIndex>();
    } catch (py::error_already_set& error) {
        // device_count() does not raise; an interrupt from the keyboard, or warnings that are errors, can come by it.
        error.discard_as_unraisable("torch.flagos.device_count");
    } catch (const py::cast_error&) {
        return 0; // more devices than PyTorch can number
    }
    return 0;
}

} // namespace torch_fl
