#pragma once

namespace shardwise::inline v0_2_0 {

/// How a product reads its factors and leaves its result: out = op(a) * op(b), or out += op(a) * op(b).
struct GemmOptions {
    bool is_a_transposed = false;
    bool is_b_transposed = false;
    /// Adds to what `out` holds instead of replacing it.
    bool accumulates = false;
};

}  // namespace shardwise::inline v0_2_0
