#pragma once

#include <shardwise/op/step.hpp>

#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// The last (or first) row of each sequence, copied.
///
/// Shapes  in [tokens, width], out [sequences, width]
[[nodiscard]] constexpr OpWork last_token_work(Operation const& op, OpContext const& context) {
    return {.traffic = 2.0 * static_cast<double>(context.bytes(op.output).count())};
}

}  // namespace shardwise::inline v0_2_0
