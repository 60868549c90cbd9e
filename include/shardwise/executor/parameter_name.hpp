// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The full name of an operation's parameter in a block whose module is `prefix`: a `*` in it is the expert's number, and after a / it is
/// the full one already.
[[nodiscard]] inline std::string parameter_name(std::string_view prefix, std::string_view parameter,
                                                std::int64_t expert) {
    if (parameter.starts_with('/')) return std::string(parameter.substr(1));
    auto name = prefix.empty() ? std::string(parameter) : std::string(prefix) + "." + std::string(parameter);
    if (auto const star = name.find('*'); star != std::string::npos) name.replace(star, 1, std::to_string(expert));
    return name;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
