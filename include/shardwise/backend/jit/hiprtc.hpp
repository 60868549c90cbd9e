// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/kernel_code.hpp>
#include <shardwise/backend/jit/kernel_compiler.hpp>
#include <shardwise/core/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// AMD's compiler of device code at run time, loaded where it is asked for: a program that has kernels compiled needs no hipcc. It is a
/// part of the HIP runtime until ROCm 5, and a library of its own from then on.
///
/// Source  hip/hiprtc.h of ROCm 5.2 to 7.0
class Hiprtc {
public:
    /// Opens the first of some libraries that there is, by name or by path.
    ///
    /// Errors  file_not_found where there is none; unsupported where one lacks a function
    [[nodiscard]] static Result<Hiprtc> open(std::vector<std::string> const& names = usual_names()) {
        auto compiler = detail::KernelCompiler::open({.prefix = "hiprtc",
                                                      .install = "install ROCm's hiprtc 5.2 or later",
                                                      .libraries = names,
                                                      .options = {"-std=c++20", "-O3"},
                                                      .architecture_option = "--offload-arch=",
                                                      .before_standard = own_namespace});
        if (!compiler) return compiler.error();
        Hiprtc out(*compiler);
        out.size_ = compiler->find<detail::KernelCompiler::Size>("GetCodeSize");
        out.code_ = compiler->find<detail::KernelCompiler::Bytes>("GetCode");
        if (out.size_ == nullptr || out.code_ == nullptr)
            return compiler->too_old().at("hiprtcGetCode").because("is not in it: the library is too old");
        return out;
    }

    /// What the system's loader finds, and where ROCm is installed: of a release, whose runtime loads what it compiles, or of any.
    [[nodiscard]] static std::vector<std::string> usual_names() { return usual_names(7); }
    [[nodiscard]] static std::vector<std::string> usual_names(int release) {
        std::vector<std::string> names;
        if (release > 5) names.push_back("libhiprtc.so." + std::to_string(release));
        if (release > 5) names.push_back("/opt/rocm/lib/libhiprtc.so");
        names.push_back("libamdhip64.so.5");
        return names;
    }

    /// What code depends on beside its request.
    [[nodiscard]] std::string identity() const { return compiler_.identity(); }

    /// Compiles one kernel.
    ///
    /// Errors  backend_failure, with the first error of the compiler's log, of which `log` has all
    [[nodiscard]] Result<KernelCode> compile(KernelRequest const& request, std::string* log = nullptr) const {
        return compiler_.compile(request, size_, code_, log);
    }

private:
    /// Some releases know a few names of the standard library before a unit begins, as other types than other releases do: a unit has
    /// its own.
    static constexpr std::string_view own_namespace = "#define std shardwise_std\n";

    explicit Hiprtc(detail::KernelCompiler const& compiler) : compiler_(compiler) {}

    detail::KernelCompiler compiler_;
    detail::KernelCompiler::Size* size_ = nullptr;
    detail::KernelCompiler::Bytes* code_ = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
