// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How many rows a value has, in terms of the request.
enum class Rows : std::uint8_t {
    tokens,     // every token of the step: batch * new tokens
    sequences,  // one per sequence: the last token, or the pooled one
    routed,     // one per token and chosen expert: tokens * experts_per_token
};

/// How tensor-parallel ranks hold a value.
enum class Spread : std::uint8_t {
    replicated,  // every rank holds the whole width
    sharded,     // the width is sharded over the ranks in `units` (heads, columns)
    partial,     // every rank holds a summand of the whole width: an all-reduce must follow
};

/// An activation of a block: [rows, width], row-major.
struct Value {
    std::string_view name;
    Rows rows = Rows::tokens;
    std::int64_t width = 0;
    Spread spread = Spread::replicated;
    /// Indivisible parts of the width when it is sharded: a head, a column.
    std::int64_t units = 1;
    /// Query heads that these units serve when they are key-value heads (replicated where ranks exceed them); else 0.
    std::int64_t serves_heads = 0;
    /// Set for a packed [q, k, v] value: its width holds `units` query heads, then this many key heads and as many value
    /// heads, all of one size; a rank holds split_units of the first and split_kv_heads of the others. Else 0.
    std::int64_t packed_kv_heads = 0;
    /// True where engines keep 32 bits whatever the model's dtype: logits, router scores.
    bool is_fp32 = false;
    /// True for a value that no operation of the block makes and that outlives it: the encoder's output in a decoder.
    bool is_external = false;
};

/// The index of a value within its block.
using ValueId = std::int32_t;
inline constexpr ValueId no_value = -1;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
