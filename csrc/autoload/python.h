#pragma once

#include <c10/core/Device.h>

// The two questions that the stand-in puts to torch.flagos, the Python side of it. Both take the GIL, and neither may
// be asked with a lock held that a thread with the GIL could want.

namespace torch_fl {

// Imports torch_fl by torch.flagos._lazy_init(). Raises the Python exception, which is torch_fl.LoadError where the
// vendor's stack does not load.
void loadBackend();

// torch.flagos.device_count(), which imports torch_fl as well; 0 where that fails, and while Python is finalizing.
c10::DeviceIndex countDevices() noexcept;

} // namespace torch_fl
