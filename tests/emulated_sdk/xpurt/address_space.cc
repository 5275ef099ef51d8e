#include "address_space.h"

#include <bit>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

namespace xpuemu {

static uintptr_t reserve(uint64_t bytes) {
    void* address = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return reinterpret_cast<uintptr_t>(address);
}

AddressSpace::AddressSpace(int devices, uint64_t capacity)
    : span_shift_(static_cast<unsigned>(std::countr_zero(std::bit_ceil(2 * capacity)))),
      total_(uint64_t(devices) << span_shift_) {
    view_ = reserve(total_);
    host_ = reserve(total_);
}

void AddressSpace::mapDevice(int device) {
    const int file = memfd_create("xpuemu-device-memory", MFD_CLOEXEC);
    if (file < 0) {
        throw std::bad_alloc();
    }
    bool mapped = ftruncate(file, static_cast<off_t>(deviceSpan())) == 0;
    const struct {
        uintptr_t base;
        int protection;
    } sides[] = {{view_, PROT_NONE}, {host_, PROT_READ | PROT_WRITE}};
    for (const auto& side : sides) {
        void* address = reinterpret_cast<void*>(side.base + (uint64_t(device) << span_shift_));
        mapped =
            mapped &&
            mmap(address, deviceSpan(), side.protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) != MAP_FAILED;
        // A forked child has no device, and a core file needs no device memory.
        mapped = mapped && madvise(address, deviceSpan(), MADV_DONTFORK) == 0;
        mapped = mapped && madvise(address, deviceSpan(), MADV_DONTDUMP) == 0;
    }
    close(file); // the mappings keep the file alive
    if (!mapped) {
        throw std::bad_alloc();
    }
}

void AddressSpace::discard(int device, uint64_t offset, uint64_t bytes) {
    void* address = hostAddress(viewAddress(device, offset));
    // MADV_REMOVE punches a hole into the file. Where it is refused the pages merely stay: never a wrong answer.
    [[maybe_unused]] const int ignored = madvise(address, bytes, MADV_REMOVE);
}

} // namespace xpuemu
