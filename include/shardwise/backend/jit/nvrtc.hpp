// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/device_source.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/vendor/dynamic_library.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A kernel as a driver loads it.
struct KernelCode {
    /// The kernel's name in the image.
    std::string symbol;
    /// A cubin, or PTX with the zero behind it.
    std::string image;
};

/// What a kernel is compiled for.
struct KernelRequest {
    /// A unit that includes it, and the headers that the unit reaches.
    std::string unit;
    std::span<detail::DeviceSource const> sources;
    /// The kernel as the unit may name it: a template with its arguments.
    std::string kernel;
    /// sm_80 for a cubin, compute_80 for PTX.
    std::string architecture;
    std::vector<std::string> options;
};

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
        Error error{ErrorCode::file_not_found};
        error.in("libnvrtc.so").because("this machine has no such library").fix("install CUDA's libnvrtc 12 or later");
        for (auto const& name : names) {
            auto const library = DynamicLibrary::open(name);
            if (library) return of(*library);
            if (library.error().code() != ErrorCode::file_not_found) error = library.error();
        }
        return error;
    }

    /// What the system's loader finds, and where toolkits are installed.
    [[nodiscard]] static std::vector<std::string> usual_names() {
        return {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"};
    }

    /// Of the library: 13000 of 13.0.
    [[nodiscard]] int version() const { return version_; }

    /// The architectures that it compiles for, ascending: 80 of sm_80.
    [[nodiscard]] Result<std::vector<int>> architectures() const {
        int count = 0;
        if (auto const asked = result(count_architectures_(&count), "nvrtcGetNumSupportedArchs"); !asked)
            return asked.error();
        std::vector<int> out(static_cast<std::size_t>(count));
        if (auto const asked = result(list_architectures_(out.data()), "nvrtcGetSupportedArchs"); !asked)
            return asked.error();
        std::sort(out.begin(), out.end());
        return out;
    }

    /// Compiles one kernel.
    ///
    /// Errors  backend_failure, with the first error of the compiler's log, of which `log` has all
    [[nodiscard]] Result<KernelCode> compile(KernelRequest const& request, std::string* log = nullptr) const {
        std::vector<char const*> texts;
        std::vector<char const*> names;
        std::vector<std::string> kept;
        kept.reserve(2 * (request.sources.size() + std::size(detail::standard_sources)));
        auto const add = [&](detail::DeviceSource const& source) {
            texts.push_back(kept.emplace_back(source.text).c_str());
            names.push_back(kept.emplace_back(source.name).c_str());
        };
        for (auto const& source : detail::standard_sources) add(source);
        for (auto const& source : request.sources) add(source);

        Program program(*this);
        auto const made = result(create_(&program.handle, request.unit.c_str(), "shardwise_kernel.cu",
                                         static_cast<int>(texts.size()), texts.data(), names.data()),
                                 "nvrtcCreateProgram");
        if (!made) return made.error();
        if (auto const named = result(add_name_(program.handle, request.kernel.c_str()), "nvrtcAddNameExpression");
            !named)
            return named.error();
        // Without -default-device a constexpr function that kernels only ask at compile time is an error.
        std::vector<std::string> options{"--std=c++20", "-default-device",
                                         "--gpu-architecture=" + request.architecture};
        options.insert(options.end(), request.options.begin(), request.options.end());
        std::vector<char const*> pointers;
        for (auto const& option : options) pointers.push_back(option.c_str());
        auto const status = compile_(program.handle, static_cast<int>(pointers.size()), pointers.data());
        auto const said = text_of(program.handle, log_size_, log_);
        if (log != nullptr) *log = said;
        if (auto const compiled = result(status, "nvrtcCompileProgram"); !compiled) {
            auto error = compiled.error();
            if (auto const first = first_error(said); !first.empty()) error.because(first);
            return error.at(request.kernel);
        }
        char const* symbol = nullptr;
        if (auto const found =
                result(lowered_name_(program.handle, request.kernel.c_str(), &symbol), "nvrtcGetLoweredName");
            !found)
            return found.error();
        bool const is_cubin = request.architecture.starts_with("sm_");
        auto image =
            is_cubin ? bytes_of(program.handle, cubin_size_, cubin_) : bytes_of(program.handle, ptx_size_, ptx_);
        if (image.empty()) return Error{ErrorCode::backend_failure}.in("nvrtc").because("gave no code");
        return KernelCode{symbol, std::move(image)};
    }

private:
    using Handle = void*;
    using Size = int(Handle, std::size_t*);
    using Bytes = int(Handle, char*);

    struct Program {
        explicit Program(Nvrtc const& owner) : nvrtc(owner) {}
        Program(Program const&) = delete;
        Program& operator=(Program const&) = delete;
        ~Program() {
            if (handle != nullptr) (void)nvrtc.destroy_(&handle);
        }
        Nvrtc const& nvrtc;
        Handle handle = nullptr;
    };

    [[nodiscard]] static Result<Nvrtc> of(DynamicLibrary const& library) {
        Nvrtc out;
        char const* missing = nullptr;
        auto const find = [&]<class Function>(Function*& to, char const* symbol) {
            to = library.find<Function>(symbol);
            if (to == nullptr && missing == nullptr) missing = symbol;
        };
        find(out.version_of_, "nvrtcVersion");
        find(out.count_architectures_, "nvrtcGetNumSupportedArchs");
        find(out.list_architectures_, "nvrtcGetSupportedArchs");
        find(out.create_, "nvrtcCreateProgram");
        find(out.destroy_, "nvrtcDestroyProgram");
        find(out.add_name_, "nvrtcAddNameExpression");
        find(out.compile_, "nvrtcCompileProgram");
        find(out.lowered_name_, "nvrtcGetLoweredName");
        find(out.log_size_, "nvrtcGetProgramLogSize");
        find(out.log_, "nvrtcGetProgramLog");
        find(out.ptx_size_, "nvrtcGetPTXSize");
        find(out.ptx_, "nvrtcGetPTX");
        find(out.cubin_size_, "nvrtcGetCUBINSize");
        find(out.cubin_, "nvrtcGetCUBIN");
        find(out.error_string_, "nvrtcGetErrorString");
        Error old{ErrorCode::unsupported};
        old.in(library.name()).fix("install CUDA's libnvrtc 12 or later");
        if (missing != nullptr) return old.at(missing).because("is not in it: the library is too old");
        int major = 0;
        int minor = 0;
        if (auto const asked = out.result(out.version_of_(&major, &minor), "nvrtcVersion"); !asked)
            return asked.error();
        if (major < 12) return old.because("is too old").got(major).at_least(12);
        out.version_ = 1000 * major + 10 * minor;
        return out;
    }

    /// A status as a result: the call's name, and what the library says of it.
    [[nodiscard]] Result<> result(int status, std::string_view call) const {
        if (status == 0) return {};
        auto const* const text = error_string_(status);
        return Error{ErrorCode::backend_failure}.in(call).because(text == nullptr ? "failed" : text).got(status);
    }
    [[nodiscard]] static std::string bytes_of(Handle program, Size* size, Bytes* get) {
        std::size_t count = 0;
        if (size(program, &count) != 0) return {};
        std::string out(count, '\0');
        if (get(program, out.data()) != 0) return {};
        return out;
    }
    [[nodiscard]] static std::string text_of(Handle program, Size* size, Bytes* get) {
        auto out = bytes_of(program, size, get);
        while (!out.empty() && out.back() == '\0') out.pop_back();
        return out;
    }
    [[nodiscard]] static std::string first_error(std::string const& log) {
        // "error: ..." of the compiler, "error   : ..." of the assembler after it.
        auto const at = log.find("error");
        return at == std::string::npos ? std::string{} : log.substr(at, log.find('\n', at) - at);
    }

    int version_ = 0;
    int (*version_of_)(int*, int*) = nullptr;
    int (*count_architectures_)(int*) = nullptr;
    int (*list_architectures_)(int*) = nullptr;
    int (*create_)(Handle*, char const* unit, char const* name, int headers, char const* const* texts,
                   char const* const* names) = nullptr;
    int (*destroy_)(Handle*) = nullptr;
    int (*add_name_)(Handle, char const*) = nullptr;
    int (*compile_)(Handle, int options, char const* const*) = nullptr;
    int (*lowered_name_)(Handle, char const*, char const**) = nullptr;
    Size* log_size_ = nullptr;
    Bytes* log_ = nullptr;
    Size* ptx_size_ = nullptr;
    Bytes* ptx_ = nullptr;
    Size* cubin_size_ = nullptr;
    Bytes* cubin_ = nullptr;
    char const* (*error_string_)(int) = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
