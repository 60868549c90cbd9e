// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/jit_kernel.hpp>
#include <shardwise/backend/jit/kernel_code.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/add_call.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace shardwise::testing {

/// The kernels that the program compiles at run time, by the names of their templates.
inline std::map<std::string, std::set<std::string>> jit_kernels() {
    std::map<std::string, std::set<std::string>> out;
    for (auto const* record = detail::JitRecord::first(); record != nullptr; record = record->next()) {
        auto const name = record->name();
        out[name.substr(0, name.find('<'))].insert(name);
    }
    return out;
}

/// A vendor's compiler, or nothing where the machine has none, which is said once.
template <class Compiler>
Compiler const* found_compiler(char const* name) {
    static auto const found = Compiler::open();
    if (!found && found.error().code() == ErrorCode::file_not_found) {
        std::printf("SKIPPED: no %s\n", name);
        return nullptr;
    }
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    return &*found;
}

template <class Compiler>
void check_compiles(Compiler const& compiler, KernelRequest const& request) {
    std::string log;
    auto const code = compiler.compile(request, &log);
    INFO(request.architecture, " ", request.kernel, "\n", log);
    REQUIRE(code);
    CHECK(code->image.find(code->symbol) != std::string::npos);
    // What the compiler warns of nobody would see.
    CHECK(log == "");
}

}  // namespace shardwise::testing

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {
// Stands in for a kernel of the library, so that each case has a record that nothing was launched of.
template <int threads>
inline void find_ids(int) {}

// Defined by kernels/instantiate/rows.cu.
template <class Api, class T, class Other>
Result<> launch_add(std::string_view name, AddCall<T, Other> const& call, typename Api::Stream stream);
}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
