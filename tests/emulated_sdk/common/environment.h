// Reading the emulator's settings. Header only, because libxpuml.so.1 must agree with libxpurt about the number of
// devices without depending on it.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace xpuemu {

constexpr int64_t kDefaultDevices = 2;
constexpr int64_t kMaxDevices = 64;

// Value of a variable that must be a whole number from 0 to `limit`; `fallback` when it is not set. A malformed value
// ends the process: a test that misspells its setting must not pass by accident.
inline int64_t numberFromEnvironment(const char* name, int64_t fallback, int64_t limit) {
    const char* text = std::getenv(name);
    if (text == nullptr) {
        return fallback;
    }
    const char* end = text + std::strlen(text);
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(text, end, value);
    if (error != std::errc{} || stop != end || value < 0 || value > limit) {
        constexpr std::string_view said = ": not a whole number in the range that the emulated SDK accepts\n";
        // write(2) rather than stdio: this runs inside library constructors.
        if (write(STDERR_FILENO, name, std::strlen(name)) < 0 || write(STDERR_FILENO, said.data(), said.size()) < 0) {
            std::_Exit(2);
        }
        std::_Exit(2);
    }
    return value;
}

// Physical numbers of the devices that a process sees, in its own numbering. A selection list is read up to its first
// entry that is not an existing device, as CUDA does.
inline std::vector<int> visibleDevices() {
    const auto count = static_cast<int>(numberFromEnvironment("XPUEMU_DEVICES", kDefaultDevices, kMaxDevices));
    const char* selection = std::getenv("XPU_VISIBLE_DEVICES");
    if (selection == nullptr) {
        selection = std::getenv("CUDA_VISIBLE_DEVICES");
    }
    std::vector<int> devices;
    if (selection == nullptr) {
        for (int device = 0; device < count; ++device) {
            devices.push_back(device);
        }
        return devices;
    }
    std::string_view rest(selection);
    while (!rest.empty()) {
        const std::string_view entry = rest.substr(0, rest.find(','));
        rest.remove_prefix(entry.size() < rest.size() ? entry.size() + 1 : rest.size());
        int device = -1;
        const auto [stop, error] = std::from_chars(entry.data(), entry.data() + entry.size(), device);
        if (error != std::errc{} || stop != entry.data() + entry.size() || device < 0 || device >= count) {
            break;
        }
        devices.push_back(device);
    }
    return devices;
}

} // namespace xpuemu
