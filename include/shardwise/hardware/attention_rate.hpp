// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What attention was measured to do with keys and values of one element type, by sequences of one length.
struct AttentionRate {
    Dtype kv = Dtype::f32;
    /// Tokens of a sequence; 0: nothing was measured.
    std::int64_t context = 0;
    /// Keys and values that one new token of each sequence gets through.
    ///
    /// Units  bytes per second
    double decode = 0.0;
    /// A prompt's chunk, whose queries see what is before them.
    ///
    /// Units  operations per second
    double prefill = 0.0;

    friend constexpr bool operator==(AttentionRate const&, AttentionRate const&) = default;
};

/// Those that were measured come first.
using AttentionRates = std::array<AttentionRate, 12>;

/// What counts for a cache of `kv` and sequences of so many tokens: the longest of its type that is not longer, else its shortest; nothing
/// where its type was not measured.
[[nodiscard]] constexpr AttentionRate attention_rate_of(AttentionRates const& rates, Dtype kv, std::int64_t context) {
    AttentionRate best;
    for (auto const& rate : rates) {
        if (rate.context < 1 || rate.kv != kv) continue;
        bool const is_longer = rate.context > best.context;
        bool const is_nearer = best.context <= context ? is_longer && rate.context <= context : !is_longer;
        if (best.context == 0 || is_nearer) best = rate;
    }
    return best;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
