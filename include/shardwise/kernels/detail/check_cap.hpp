// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <limits>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What values are bent to stay below.
[[nodiscard]] inline Result<> check_cap(std::string_view kernel, float cap) {
    if (cap > 0.0F && cap <= std::numeric_limits<float>::max()) return {};
    return Error{ErrorCode::invalid_argument}.in(kernel).at("cap").because("must be above 0, and finite");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
