#include "runtime/generator.h"

#include "runtime/accelerator/kunlunxin/device.h"

#include <ATen/CPUGeneratorImpl.h>

#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace torch_fl {

namespace {

// A device's generator around a CPU one, see Note [Generators and the CPU fallback]. Callers of these methods
// hold the mutex of this object; kernels hold that of the CPU generator, which is therefore taken here as
// well.
class FlagosGeneratorImpl final : public c10::GeneratorImpl {
public:
    FlagosGeneratorImpl(c10::DeviceIndex device, at::Generator cpu)
        : c10::GeneratorImpl(
              c10::Device(c10::DeviceType::PrivateUse1, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
          cpu_(std::move(cpu)) {}

    const at::Generator& cpu() const { return cpu_; }

    void set_current_seed(uint64_t seed) override {
        const std::lock_guard<std::mutex> lock(cpu_.mutex());
        cpu_.set_current_seed(seed);
    }

    uint64_t current_seed() const override { return cpu_.current_seed(); }

    uint64_t seed() override {
        const std::lock_guard<std::mutex> lock(cpu_.mutex());
        return cpu_.seed();
    }

    void set_offset(uint64_t /*offset*/) override { refuseOffset(); }

    uint64_t get_offset() const override { refuseOffset(); }

    void set_state(const c10::TensorImpl& state) override {
        const std::lock_guard<std::mutex> lock(cpu_.mutex());
        cpu_.unsafeGetGeneratorImpl()->set_state(state);
    }

    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        const std::lock_guard<std::mutex> lock(cpu_.unsafeGetGeneratorImpl()->mutex_);
        return cpu_.unsafeGetGeneratorImpl()->get_state();
    }

private:
    FlagosGeneratorImpl* clone_impl() const override {
        const std::lock_guard<std::mutex> lock(cpu_.unsafeGetGeneratorImpl()->mutex_);
        return std::make_unique<FlagosGeneratorImpl>(device().index(), cpu_.clone()).release();
    }

    [[noreturn]] static void refuseOffset() {
        TORCH_CHECK_NOT_IMPLEMENTED(false, "a flagos generator has no offset: its state is that of a Mersenne Twister");
    }

    at::Generator cpu_;
};

struct DefaultGenerators {
    std::mutex mutex;
    uint64_t seed = c10::default_rng_seed_val;
    // By device index; undefined until first asked for. Never shrinks, and is never destroyed.
    std::vector<std::unique_ptr<at::Generator>> by_device;

    static DefaultGenerators& instance() {
        static DefaultGenerators* const generators = std::make_unique<DefaultGenerators>().release();
        return *generators;
    }
};

at::Generator makeGenerator(c10::DeviceIndex device, uint64_t seed) {
    return at::make_generator<FlagosGeneratorImpl>(device, at::detail::createCPUGenerator(seed));
}

} // namespace

const at::Generator& defaultGenerator(c10::DeviceIndex device) {
    const auto index = static_cast<size_t>(kunlunxin::resolveDeviceIndex(device));
    DefaultGenerators& generators = DefaultGenerators::instance();
    const std::lock_guard<std::mutex> lock(generators.mutex);
    if (generators.by_device.size() <= index) {
        generators.by_device.resize(index + 1);
    }
    std::unique_ptr<at::Generator>& generator = generators.by_device[index];
    if (generator == nullptr) {
        generator =
            std::make_unique<at::Generator>(makeGenerator(static_cast<c10::DeviceIndex>(index), generators.seed));
    }
    return *generator;
}

void seedDefaultGenerators(uint64_t seed) {
    DefaultGenerators& generators = DefaultGenerators::instance();
    const std::lock_guard<std::mutex> lock(generators.mutex);
    generators.seed = seed;
    for (const std::unique_ptr<at::Generator>& generator : generators.by_device) {
        if (generator != nullptr) {
            const std::lock_guard<std::mutex> generator_lock(generator->mutex());
            generator->set_current_seed(seed);
        }
    }
}

at::Generator newGenerator(c10::DeviceIndex device) {
    return makeGenerator(kunlunxin::resolveDeviceIndex(device), c10::default_rng_seed_val);
}

at::Generator cpuGenerator(const std::optional<at::Generator>& generator, c10::DeviceIndex device) {
    const at::Generator& chosen = generator.has_value() && generator->defined() ? *generator : defaultGenerator(device);
    if (chosen.device().type() != c10::DeviceType::PrivateUse1) {
        return chosen;
    }
    return static_cast<const FlagosGeneratorImpl*>(chosen.unsafeGetGeneratorImpl())->cpu();
}

} // namespace torch_fl
