// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/unit_split.hpp>

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
    sharded,     // the width is shared as `split` says
    partial,     // every rank holds a summand of the whole width: an all-reduce must follow
};

/// An activation of a block: [rows, width], row-major.
struct Value {
    std::string_view name;
    Rows rows = Rows::tokens;
    std::int64_t width = 0;
    Spread spread = Spread::replicated;
    /// How ranks share the width when it is sharded: the split of what makes it.
    UnitSplit split{};
    /// True where engines keep 32 bits whatever the model's dtype: logits, router scores.
    bool is_fp32 = false;
    /// True for a value that no operation of the block makes and that outlives it: the encoder's output in a decoder.
    bool is_external = false;

    /// What one of `tp` ranks has of the width; `grain` says which units stay together.
    [[nodiscard]] constexpr std::int64_t columns(std::int64_t tp, std::int64_t rank, UnitGrain grain = {}) const {
        return spread == Spread::sharded ? split.extent(width, tp, rank, grain) : width;
    }
};

/// The index of a value within its block.
using ValueId = std::int32_t;
inline constexpr ValueId no_value = -1;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
