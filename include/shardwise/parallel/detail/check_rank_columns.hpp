// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Whether input and output of a rank's product have the columns that the rank has of both.
///
/// Errors  shape_mismatch
[[nodiscard]] inline Result<> check_rank_columns(std::string_view subject, std::int64_t in, std::int64_t inputs,
                                                 std::int64_t out, std::int64_t outputs) {
    if (in == inputs && out == outputs) return {};
    return Error{ErrorCode::shape_mismatch}
        .in(subject)
        .because("input and output do not have this rank's columns")
        .got(in == inputs ? out : in)
        .expected(in == inputs ? outputs : inputs);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
