// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/kernel_code.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#define SHARDWISE_JIT_TEXT_OF(...) #__VA_ARGS__
#define SHARDWISE_JIT_TEXT(...) SHARDWISE_JIT_TEXT_OF(__VA_ARGS__)

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <auto kernel>
struct JitKernel;

/// A kernel that is compiled when it is first launched, one for each that a program could launch.
class JitRecord {
public:
    explicit JitRecord(std::type_info const& kernel, JitRecord*& list = first())
        : type_(kernel), next_(std::exchange(list, this)) {}
    JitRecord(JitRecord const&) = delete;
    JitRecord& operator=(JitRecord const&) = delete;

    /// The kernel as C++ names it, without inline namespaces, such as "shardwise::detail::find_largest<4u>".
    [[nodiscard]] std::string name() const {
        int status = 0;
        std::unique_ptr<char, void (*)(void*)> const text(abi::__cxa_demangle(type_.name(), nullptr, nullptr, &status),
                                                          &std::free);
        return status == 0 ? kernel_in(text.get()) : std::string{};
    }

    /// The code for an architecture: what `make` gives, once for all devices of a kind.
    template <class Make>
    [[nodiscard]] Result<std::shared_ptr<KernelCode const>> code_for(std::string const& architecture,
                                                                     Make const& make) {
        std::lock_guard const lock(making_);
        for (auto const& [known, code] : codes_) {
            if (known == architecture) return code;
        }
        auto made = make();
        if (!made) return made.error();
        return codes_.emplace_back(architecture, std::make_shared<KernelCode const>(*std::move(made))).second;
    }
    /// Puts other code in its place, which lives as long as this.
    [[nodiscard]] std::shared_ptr<KernelCode const> replace_code(std::string const& architecture, KernelCode code) {
        std::lock_guard const lock(making_);
        auto const made = replaced_.emplace_back(std::make_shared<KernelCode const>(std::move(code)));
        for (auto& [known, old] : codes_) {
            if (known == architecture) std::swap(old, replaced_.back());
        }
        return made;
    }
    /// What a context of the driver launches: what `load` found for it first. No lock is held while it loads: a driver may then wait for
    /// kernels of the device, which wait for another rank, which comes here for its own device.
    template <class Load>
    [[nodiscard]] Result<void*> function_in(void* context, Load const& load) {
        if (auto* const known = known_function(context, nullptr)) return known;
        auto const loaded = load();
        if (!loaded) return loaded;
        return known_function(context, *loaded);
    }

    /// The kernels of the program, one after the other.
    [[nodiscard]] static JitRecord*& first() {
        static JitRecord* list = nullptr;
        return list;
    }
    [[nodiscard]] JitRecord* next() const { return next_; }

    /// The kernel in a JitKernel's name as compilers write it: "...JitKernel<&(void NAME<ARGUMENTS>(PARAMETERS))>". The namespace of a
    /// version is left out: what macros decide it in this unit (core/version.hpp) says nothing of device code.
    [[nodiscard]] static std::string kernel_in(std::string_view text) {
        constexpr std::string_view before = "<&(void ";
        auto const start = text.find(before);
        if (start == std::string_view::npos) return {};
        text.remove_prefix(start + before.size());
        // Arguments hold parentheses of their own: (WeightFormat)3.
        int depth = 0;
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '<') ++depth;
            if (text[i] == '>') --depth;
            if (text[i] == '(' && depth == 0) return without_version(std::string(text.substr(0, i)));
        }
        return {};
    }

private:
    /// A context's function; where it has none, `otherwise` becomes it.
    [[nodiscard]] void* known_function(void* context, void* otherwise) {
        std::lock_guard const lock(mutex_);
        for (auto const& [known, function] : functions_) {
            if (known == context) return function;
        }
        if (otherwise != nullptr) functions_.emplace_back(context, otherwise);
        return otherwise;
    }
    [[nodiscard]] static std::string without_version(std::string name) {
        constexpr std::string_view version = SHARDWISE_JIT_TEXT(SHARDWISE_NAMESPACE) "::";
        for (auto at = name.find(version); at != std::string::npos; at = name.find(version, at))
            name.erase(at, version.size());
        return name;
    }

    std::type_info const& type_;
    JitRecord* next_;
    std::mutex making_;
    std::vector<std::pair<std::string, std::shared_ptr<KernelCode const>>> codes_;
    /// What was replaced: a driver may read an image for as long as it has it.
    std::vector<std::shared_ptr<KernelCode const>> replaced_;
    std::mutex mutex_;
    std::vector<std::pair<void*, void*>> functions_;
};

/// A launch under way on this thread: JitKernel finds here what a kernel's parameters do not say.
struct JitLaunch {
    std::string_view name;
    std::int64_t blocks = 0;
    int threads = 0;
    void* stream = nullptr;
    Result<> (*launch)(JitRecord& kernel, void** arguments, JitLaunch const& launch) = nullptr;
    Result<> result{};

    [[nodiscard]] static JitLaunch*& current() {
        static thread_local JitLaunch* launch = nullptr;
        return launch;
    }
};

/// What stands for a kernel where the host's compiler made none: a function with its parameters, as the vendor's own compiler makes one.
template <class... Parameters, void (*kernel)(Parameters...)>
struct JitKernel<kernel> {
    static inline JitRecord record{typeid(JitKernel)};

    static void launch(Parameters... arguments) {
        void* pointers[] = {static_cast<void*>(&arguments)...};
        auto& launch = *JitLaunch::current();
        launch.result = launch.launch(record, pointers, launch);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
