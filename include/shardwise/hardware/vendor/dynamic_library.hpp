// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <dlfcn.h>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A vendor's library, opened at run time so that no program needs it to start.
///
/// It stays loaded: vendors' libraries leave threads and exit handlers behind, and unloading them has crashed programs.
class DynamicLibrary {
public:
    /// Opens by name, searched as the system's loader does, or by path.
    ///
    /// Errors  file_not_found where there is no such library; backend_failure where it is there but does not load
    [[nodiscard]] static Result<DynamicLibrary> open(std::string const& name) {
        auto* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle != nullptr) return DynamicLibrary(handle, name);
        char const* const problem = ::dlerror();
        std::string const reason = problem == nullptr ? "unknown" : problem;
        if (is_missing(reason, name)) {
            return Error{ErrorCode::file_not_found}.in(name).because("this machine has no such library");
        }
        return Error{ErrorCode::backend_failure}.in("dlopen").at(name).because(reason).fix(
            "reinstall the driver that this library belongs to");
    }

    /// The function of this name; null where the library has none.
    template <class Function>
    [[nodiscard]] Function* find(char const* symbol) const {
        return reinterpret_cast<Function*>(::dlsym(handle_, symbol));
    }
    /// The name or path that it was opened by.
    [[nodiscard]] std::string const& name() const { return name_; }

private:
    DynamicLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}

    /// The loader tells only in words whether the library itself is missing (no driver) or something that it needs
    /// (a broken one): "NAME: cannot open shared object file: No such file or directory", or musl's "Error loading
    /// shared library NAME: No such file or directory", or macOS's "dlopen(NAME, ...: no such file".
    static bool is_missing(std::string const& reason, std::string const& name) {
        bool const says_missing = reason.find("No such file") != std::string::npos ||
                                  reason.find("no such file") != std::string::npos ||
                                  reason.find("Not a directory") != std::string::npos;
        auto const starts_with = [&reason](std::string const& text) {
            return reason.compare(0, text.size(), text) == 0;
        };
        return says_missing && (starts_with(name + ":") || starts_with("Error loading shared library " + name + ":") ||
                                starts_with("dlopen(" + name + ","));
    }

    void* handle_;
    std::string name_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
