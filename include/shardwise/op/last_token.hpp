// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/step.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The last (or first) row of each sequence, copied.
///
/// Shapes  in [tokens, width], out [sequences, width]
[[nodiscard]] constexpr OpWork last_token_work(Operation const& op, OpContext const& context) {
    return {.traffic = 2.0 * static_cast<double>(context.bytes(op.output).count())};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
