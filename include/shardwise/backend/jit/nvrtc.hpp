// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/kernel_code.hpp>
#include <shardwise/backend/jit/kernel_compiler.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// NVIDIA's compiler of device code at run time, loaded where it is asked for: a program that has kernels compiled needs neither nvcc nor
/// the toolkit's headers. Its functions are called by a C interface that has been the same since CUDA 11.2.
///
/// Source  nvrtc.h of CUDA 11.2 to 13.0
class Nvrtc {
public:
    /// Opens the first of some libraries that there is, by name or by path.
    ///
    /// Errors  file_not_found where there is none; unsupported where one lacks a function or is older than 12.0 (C++20)
    [[nodiscard]] static Result<Nvrtc> open(std::vector<std::string> const& names = usual_names()) {
        auto compiler = detail::KernelCompiler::open(
            {.prefix = "nvrtc",
             .install = "install CUDA's libnvrtc 12 or later",
             .libraries = names,
             // Without -default-device a constexpr function that kernels only ask at compile time is an error.
             .options = {"--std=c++20", "-default-device"},
             .architecture_option = "--gpu-architecture="});
        if (!compiler) return compiler.error();
        Nvrtc out(*compiler);
        std::string_view missing;
        auto const find = [&]<class Function>(Function*& to, std::string_view name) {
            to = compiler->template find<Function>(name);
            if (to == nullptr && missing.empty()) missing = name;
        };
        find(out.count_architectures_, "GetNumSupportedArchs");
        find(out.list_architectures_, "GetSupportedArchs");
        find(out.ptx_size_, "GetPTXSize");
        find(out.ptx_, "GetPTX");
        find(out.cubin_size_, "GetCUBINSize");
        find(out.cubin_, "GetCUBIN");
        if (!missing.empty())
            return compiler->too_old()
                .at("nvrtc" + std::string(missing))
                .because("is not in it: the library is too old");
        auto const version = compiler->version();
        if (!version) return version.error();
        if (version->first < 12) return compiler->too_old().got(version->first).at_least(12);
        return out;
    }

    /// What the system's loader finds, and where toolkits are installed.
    [[nodiscard]] static std::vector<std::string> usual_names() {
        return {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"};
    }

    /// The architectures that it compiles for, ascending: 80 of sm_80.
    [[nodiscard]] Result<std::vector<int>> architectures() const {
        int count = 0;
        if (auto const asked = compiler_.result(count_architectures_(&count), "GetNumSupportedArchs"); !asked)
            return asked.error();
        std::vector<int> out(static_cast<std::size_t>(count));
        if (auto const asked = compiler_.result(list_architectures_(out.data()), "GetSupportedArchs"); !asked)
            return asked.error();
        std::sort(out.begin(), out.end());
        return out;
    }

    /// What code depends on beside its request.
    [[nodiscard]] std::string identity() const { return compiler_.identity(); }

    /// Compiles one kernel.
    ///
    /// Errors  backend_failure, with the first error of the compiler's log, of which `log` has all
    [[nodiscard]] Result<KernelCode> compile(KernelRequest const& request, std::string* log = nullptr) const {
        bool const is_cubin = request.architecture.starts_with("sm_");
        return compiler_.compile(request, is_cubin ? cubin_size_ : ptx_size_, is_cubin ? cubin_ : ptx_, log);
    }

private:
    explicit Nvrtc(detail::KernelCompiler const& compiler) : compiler_(compiler) {}

    detail::KernelCompiler compiler_;
    int (*count_architectures_)(int*) = nullptr;
    int (*list_architectures_)(int*) = nullptr;
    detail::KernelCompiler::Size* ptx_size_ = nullptr;
    detail::KernelCompiler::Bytes* ptx_ = nullptr;
    detail::KernelCompiler::Size* cubin_size_ = nullptr;
    detail::KernelCompiler::Bytes* cubin_ = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
