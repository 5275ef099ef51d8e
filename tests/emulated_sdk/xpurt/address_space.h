// Where device memory lies.
//
// Each device has one sparse memory file, mapped twice. Clients get addresses in the *view*, which has no access
// rights, so a host that touches device memory dies as it should. Kernels and copies use the *host side*, a read/write
// mapping of the same file. Both are reserved once for all devices with the same layout, so that translating an
// address is one addition, and no call ever changes a mapping's protection.
#pragma once

#include <cstdint>

namespace xpuemu {

class AddressSpace {
public:
    // Reserves room for `devices` devices of `capacity` bytes each. Throws std::bad_alloc when the process may not have
    // that many addresses (a limit set with ulimit -v).
    AddressSpace(int devices, uint64_t capacity);
    AddressSpace(const AddressSpace&) = delete;
    AddressSpace& operator=(const AddressSpace&) = delete;

    // Maps the memory of one device. Throws std::bad_alloc.
    void mapDevice(int device);

    // Bytes of address space per device: more than its capacity, so that fragmentation never makes an allocation fail
    // which the capacity allows.
    uint64_t deviceSpan() const { return uint64_t{1} << span_shift_; }

    uintptr_t viewAddress(int device, uint64_t offset) const {
        return view_ + (uint64_t(device) << span_shift_) + offset;
    }

    // Device whose view holds `address`, or -1.
    int deviceOf(uintptr_t address) const {
        const uint64_t distance = address - view_;
        return distance < total_ ? static_cast<int>(distance >> span_shift_) : -1;
    }

    // Offset of a view address in its device's memory.
    uint64_t offsetOf(uintptr_t address) const { return (address - view_) & (deviceSpan() - 1); }

    void* hostAddress(uintptr_t view_address) const { return reinterpret_cast<void*>(view_address - view_ + host_); }

    // Gives the pages of a range back to the system.
    void discard(int device, uint64_t offset, uint64_t bytes);

private:
    unsigned span_shift_;
    uint64_t total_;
    uintptr_t view_ = 0;
    uintptr_t host_ = 0;
};

} // namespace xpuemu
