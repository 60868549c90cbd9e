// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/code_cache.hpp>
#include <shardwise/backend/jit/cuda_driver.hpp>
#include <shardwise/backend/jit/device_source.hpp>
#include <shardwise/backend/jit/jit_kernel.hpp>
#include <shardwise/backend/jit/nvrtc.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a program compiles, keeps, loads and launches CUDA's kernels with, opened when the first of them is launched.
class CudaJit {
public:
    CudaJit(CudaDriver driver, Result<Nvrtc> nvrtc, CodeCache cache)
        : driver_(std::move(driver)), nvrtc_(std::move(nvrtc)), cache_(std::move(cache)) {}

    /// Errors  those of CudaDriver::open; Nvrtc's come when a kernel is compiled that the cache does not hold
    [[nodiscard]] static Result<CudaJit const*> get() {
        static Result<CudaJit> const jit = []() -> Result<CudaJit> {
            auto driver = CudaDriver::open();
            if (!driver) return driver.error();
            return CudaJit(*driver, Nvrtc::open(), CodeCache(CodeCache::usual_folder()));
        }();
        if (!jit) return jit.error();
        return &*jit;
    }

    /// Launches a kernel on the current device, which has it from its first launch on.
    [[nodiscard]] Result<> launch(JitRecord& kernel, void** arguments, JitLaunch const& of) const {
        auto const context = driver_.current_context();
        if (!context) return context.error();
        auto const function = kernel.function_in(*context, [&] { return load(kernel); });
        if (!function) return function.error();
        return driver_.launch(*function, static_cast<unsigned>(of.blocks), static_cast<unsigned>(of.threads), of.stream,
                              arguments, of.name);
    }

    /// The architecture to compile for: the device's own, or the last before it, whose PTX the driver then compiles.
    [[nodiscard]] static std::string architecture_for(int capability, std::vector<int> const& known) {
        if (std::find(known.begin(), known.end(), capability) != known.end()) return "sm_" + std::to_string(capability);
        int last = known.empty() ? capability : known.front();
        for (int const each : known) {
            if (each < capability) last = each;
        }
        return "compute_" + std::to_string(last);
    }

private:
    [[nodiscard]] Result<void*> load(JitRecord& kernel) const {
        if (!nvrtc_) return nvrtc_.error();
        auto const capability = driver_.capability();
        if (!capability) return capability.error();
        auto const known = nvrtc_->architectures();
        if (!known) return known.error();
        auto const sources = device_sources();
        KernelRequest const request{
            unit_of(sources), sources, kernel.name(), architecture_for(*capability, *known), {}};
        auto const name = CodeCache::name_of(request, nvrtc_->version());
        bool is_kept = false;
        auto const code = kernel.code_for(request.architecture, [&]() -> Result<KernelCode> {
            if (auto kept = cache_.find(name)) return is_kept = true, *std::move(kept);
            return compile(request, name);
        });
        if (!code) return code.error();
        auto const loaded = driver_.load((*code)->image, (*code)->symbol);
        if (loaded || !is_kept) return loaded;
        // What an older driver kept, say.
        auto const again = compile(request, name);
        if (!again) return again.error();
        return driver_.load(again->image, again->symbol);
    }
    [[nodiscard]] Result<KernelCode> compile(KernelRequest const& request, std::string const& name) const {
        auto code = nvrtc_->compile(request);
        // A cache that cannot be written costs the next program the time of this one.
        if (code) (void)cache_.keep(name, *code);
        return code;
    }

    CudaDriver driver_;
    Result<Nvrtc> nvrtc_;
    CodeCache cache_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
