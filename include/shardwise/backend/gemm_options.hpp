// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a product reads its factors and leaves its result: out = op(a) * op(b), or out += op(a) * op(b).
struct GemmOptions {
    bool is_a_transposed = false;
    bool is_b_transposed = false;
    /// Adds to what `out` holds instead of replacing it.
    bool accumulates = false;
    /// Factors are rounded to bf16 before they are multiplied, to the nearest, ties to even. Of the host alone, which has units for it.
    bool rounds_to_bf16 = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
