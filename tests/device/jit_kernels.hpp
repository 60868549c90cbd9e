// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/jit_kernel.hpp>

#include <map>
#include <set>
#include <string>

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

}  // namespace shardwise::testing

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {
// Stands in for a kernel of the library, so that each case has a record that nothing was launched of.
template <int threads>
inline void find_ids(int) {}
}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
