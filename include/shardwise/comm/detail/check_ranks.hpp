// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The number of ranks that a group is asked for.
///
/// Errors  invalid_argument, with the numbers that it may have
[[nodiscard]] inline Result<> check_ranks(std::string_view communicator, std::int32_t ranks, std::int32_t most) {
    if (ranks >= 1 && ranks <= most) return {};
    return Error{ErrorCode::invalid_argument}
        .in(communicator)
        .at("ranks")
        .because("are not between 1 and " + std::to_string(most))
        .got(ranks);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
