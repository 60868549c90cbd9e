// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/code_cache.hpp>
#include <shardwise/backend/jit/device_source.hpp>
#include <shardwise/backend/jit/jit_kernel.hpp>
#include <shardwise/backend/jit/kernel_code.hpp>
#include <shardwise/core/result.hpp>

#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a program compiles, keeps, loads and launches a vendor's kernels with, opened when the first of them is launched. `Vendor` has
///
///     using Driver, Compiler                                                                 // Driver with static open()
///     static Result<Compiler> open_compiler()
///     static Result<std::string> architecture(Driver const&, Compiler const&)                // of the current device
///     static KernelRequest request(std::span<DeviceSource const>, std::string kernel, std::string architecture)
template <class Vendor>
class RunTimeKernels {
public:
    using Driver = typename Vendor::Driver;
    using Compiler = typename Vendor::Compiler;

    RunTimeKernels(Driver driver, Result<Compiler> compiler, CodeCache cache)
        : driver_(std::move(driver)), compiler_(std::move(compiler)), cache_(std::move(cache)) {}

    /// Errors  those of Driver::open; the compiler's come when a kernel is compiled that the cache does not hold
    [[nodiscard]] static Result<RunTimeKernels const*> get() {
        static Result<RunTimeKernels> const kernels = []() -> Result<RunTimeKernels> {
            auto driver = Driver::open();
            if (!driver) return driver.error();
            return RunTimeKernels(*driver, Vendor::open_compiler(), CodeCache(CodeCache::usual_folder()));
        }();
        if (!kernels) return kernels.error();
        return &*kernels;
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

private:
    [[nodiscard]] Result<void*> load(JitRecord& kernel) const {
        if (!compiler_) return compiler_.error();
        auto const architecture = Vendor::architecture(driver_, *compiler_);
        if (!architecture) return architecture.error();
        auto const request = Vendor::request(device_sources(), kernel.name(), *architecture);
        auto const name = CodeCache::name_of(request, compiler_->identity(), sources_);
        bool is_kept = false;
        auto const code = kernel.code_for(request.architecture, [&]() -> Result<KernelCode> {
            if (auto kept = cache_.find(name)) return is_kept = true, *std::move(kept);
            return compile(request, name);
        });
        if (!code) return code.error();
        auto const loaded = driver_.load((*code)->image, (*code)->symbol);
        if (loaded || !is_kept) return loaded;
        // What an older driver kept, say.
        auto again = compile(request, name);
        if (!again) return again.error();
        auto const kept = kernel.replace_code(request.architecture, *std::move(again));
        return driver_.load(kept->image, kept->symbol);
    }
    [[nodiscard]] Result<KernelCode> compile(KernelRequest const& request, std::string const& name) const {
        auto code = compiler_->compile(request);
        // A cache that cannot be written costs the next program the time of this one.
        if (code) (void)cache_.keep(name, *code);
        return code;
    }

    Driver driver_;
    Result<Compiler> compiler_;
    CodeCache cache_;
    /// Of all that kernels are compiled from, once for all of them.
    std::string sources_ = CodeCache::digest_of(device_sources());
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
