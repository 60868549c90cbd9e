// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/device_source.hpp>
#include <shardwise/backend/jit/kernel_code.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/vendor/dynamic_library.hpp>

#include <cstddef>
#include <dlfcn.h>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A vendor's compiler of device code at run time, by the C interface that NVRTC and hipRTC have alike but for the first letters of its
/// functions' names. The library stays loaded.
class KernelCompiler {
public:
    using Handle = void*;
    using Size = int(Handle, std::size_t*);
    using Bytes = int(Handle, char*);

    /// What a vendor's is beside the functions.
    struct Vendor {
        /// What functions' names begin with, as in nvrtcVersion.
        std::string_view prefix;
        /// What the user installs where there is none, or an old one.
        std::string_view install;
        std::vector<std::string> libraries;
        std::vector<std::string> options;
        /// Before the architecture.
        std::string_view architecture_option;
        /// What the stand-ins for headers of the standard library begin with.
        std::string_view before_standard{};
    };

    /// Opens the first of the vendor's libraries that there is, by name or by path.
    ///
    /// Errors  file_not_found where there is none; unsupported where one lacks a function
    [[nodiscard]] static Result<KernelCompiler> open(Vendor const& vendor) {
        Error error{ErrorCode::file_not_found};
        error.in("lib" + std::string(vendor.prefix) + ".so")
            .because("this machine has no such library")
            .fix(vendor.install);
        for (auto const& name : vendor.libraries) {
            auto const library = DynamicLibrary::open(name);
            if (library) return of(*library, vendor);
            if (library.error().code() != ErrorCode::file_not_found) error = library.error();
        }
        return error;
    }

    [[nodiscard]] std::string const& library() const { return library_.name(); }
    /// One of the library's functions; null where it has none of this name, which follows the vendor's letters.
    template <class Function>
    [[nodiscard]] Function* find(std::string_view name) const {
        return library_.find<Function>((std::string(vendor_.prefix) + std::string(name)).c_str());
    }
    /// Of the library, as it says.
    ///
    /// Errors  backend_failure
    [[nodiscard]] Result<std::pair<int, int>> version() const {
        std::pair<int, int> out;
        if (auto const asked = result(version_(&out.first, &out.second), "Version"); !asked) return asked.error();
        return out;
    }
    /// What code depends on beside its request: the library's file, which names its release, its version, and what it is always given.
    [[nodiscard]] std::string identity() const {
        Dl_info info{};
        std::error_code failed;
        std::string out = library();
        if (::dladdr(reinterpret_cast<void const*>(compile_), &info) != 0 && info.dli_fname != nullptr)
            out = std::filesystem::canonical(info.dli_fname, failed).string();
        if (auto const numbers = version())
            out += " " + std::to_string(numbers->first) + "." + std::to_string(numbers->second);
        for (auto const& option : vendor_.options) out += " " + option;
        out += vendor_.before_standard;
        for (auto const& source : standard_sources) out += source.text;
        return out;
    }
    /// A library that is too old for what it is asked for.
    [[nodiscard]] Error too_old() const {
        return Error{ErrorCode::unsupported}.in(library()).because("is too old").fix(vendor_.install);
    }

    /// Compiles one kernel, whose image `size` and `bytes` give.
    ///
    /// Errors  backend_failure, with the first error of the compiler's log, of which `log` has all
    [[nodiscard]] Result<KernelCode> compile(KernelRequest const& request, Size* size, Bytes* bytes,
                                             std::string* log) const {
        std::vector<char const*> texts;
        std::vector<char const*> names;
        std::vector<std::string> kept;
        kept.reserve(2 * (request.sources.size() + std::size(standard_sources)));
        auto const add = [&](std::string_view name, std::string text) {
            texts.push_back(kept.emplace_back(std::move(text)).c_str());
            names.push_back(kept.emplace_back(name).c_str());
        };
        for (auto const& source : standard_sources)
            add(source.name, std::string(vendor_.before_standard) + std::string(source.text));
        for (auto const& source : request.sources) add(source.name, std::string(source.text));

        Program program(*this);
        auto const made = result(create_(&program.handle, request.unit.c_str(), "shardwise_kernel.cu",
                                         static_cast<int>(texts.size()), texts.data(), names.data()),
                                 "CreateProgram");
        if (!made) return made.error();
        if (auto const named = result(add_name_(program.handle, request.kernel.c_str()), "AddNameExpression"); !named)
            return named.error();
        auto options = vendor_.options;
        options.push_back(std::string(vendor_.architecture_option) + request.architecture);
        options.insert(options.end(), request.options.begin(), request.options.end());
        std::vector<char const*> pointers;
        for (auto const& option : options) pointers.push_back(option.c_str());
        auto const status = compile_(program.handle, static_cast<int>(pointers.size()), pointers.data());
        auto const said = text_of(program.handle, log_size_, log_);
        if (log != nullptr) *log = said;
        if (auto const compiled = result(status, "CompileProgram"); !compiled) {
            auto error = compiled.error();
            if (auto const first = first_error(said); !first.empty()) error.because(first);
            return error.at(request.kernel);
        }
        char const* symbol = nullptr;
        auto const found = result(lowered_name_(program.handle, request.kernel.c_str(), &symbol), "GetLoweredName");
        if (!found) return found.error();
        auto image = bytes_of(program.handle, size, bytes);
        if (image.empty()) return Error{ErrorCode::backend_failure}.in(vendor_.prefix).because("gave no code");
        return KernelCode{symbol, std::move(image)};
    }

    /// A status as a result: the call's name, after the vendor's letters, and what the library says of it.
    [[nodiscard]] Result<> result(int status, std::string_view call) const {
        if (status == 0) return {};
        auto const* const text = error_string_(status);
        return Error{ErrorCode::backend_failure}
            .in(std::string(vendor_.prefix) + std::string(call))
            .because(text == nullptr ? "failed" : text)
            .got(status);
    }

private:
    struct Program {
        explicit Program(KernelCompiler const& owner) : compiler(owner) {}
        Program(Program const&) = delete;
        Program& operator=(Program const&) = delete;
        ~Program() {
            if (handle != nullptr) (void)compiler.destroy_(&handle);
        }
        KernelCompiler const& compiler;
        Handle handle = nullptr;
    };

    KernelCompiler(DynamicLibrary const& library, Vendor const& vendor) : library_(library), vendor_(vendor) {}

    [[nodiscard]] static Result<KernelCompiler> of(DynamicLibrary const& library, Vendor const& vendor) {
        KernelCompiler out(library, vendor);
        std::string missing;
        auto const look_for = [&]<class Function>(Function*& to, std::string_view name) {
            to = out.find<Function>(name);
            if (to == nullptr && missing.empty()) missing = std::string(vendor.prefix) + std::string(name);
        };
        look_for(out.version_, "Version");
        look_for(out.create_, "CreateProgram");
        look_for(out.destroy_, "DestroyProgram");
        look_for(out.add_name_, "AddNameExpression");
        look_for(out.compile_, "CompileProgram");
        look_for(out.lowered_name_, "GetLoweredName");
        look_for(out.log_size_, "GetProgramLogSize");
        look_for(out.log_, "GetProgramLog");
        look_for(out.error_string_, "GetErrorString");
        if (missing.empty()) return out;
        return out.too_old().at(missing).because("is not in it: the library is too old");
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

    DynamicLibrary library_;
    Vendor vendor_;
    int (*version_)(int*, int*) = nullptr;
    int (*create_)(Handle*, char const* unit, char const* name, int headers, char const* const* texts,
                   char const* const* names) = nullptr;
    int (*destroy_)(Handle*) = nullptr;
    int (*add_name_)(Handle, char const*) = nullptr;
    int (*compile_)(Handle, int options, char const* const*) = nullptr;
    int (*lowered_name_)(Handle, char const*, char const**) = nullptr;
    Size* log_size_ = nullptr;
    Bytes* log_ = nullptr;
    char const* (*error_string_)(int) = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
