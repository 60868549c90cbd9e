// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Keys of a part of a context, whose sums come of its own keys alone.
constexpr int step_part_keys = 256;
/// Parts that are merged with each other before they are merged with others: so many may be left to one block, or each to its own.
constexpr int step_span_parts = 8;

/// Keys or values as kernels take them.
template <class Cache>
struct StepRowsCall {
    Cache const* data;
    std::int64_t row;
    /// Of bytes.
    float const* scales;
    std::int64_t scale_row;
};

/// What an attention over a step table is beside its keys and values.
struct StepAttentionPlan {
    /// Of the table: its tokens and its sequences first.
    std::int32_t const* counts;
    std::int32_t const* sequence;
    std::int32_t const* first;
    std::int32_t const* rows;
    /// Keys of each sequence before its own rows; where queries see none of these, those of its source.
    std::int32_t const* past;
    /// Of the first sequence; null where keys are the step's own rows.
    std::int32_t const* pages;
    std::int64_t list;
    int page_shift;

    void const* q;
    std::int64_t q_row;
    void* out;
    std::int64_t out_row;
    /// Of each head, or null.
    float const* sinks;
    float const* slopes;
    /// What scores gain before they are capped, or null: of each head a bias for each offset of a key from -bias_reach on, or, where that
    /// is 0, a slope in bf16 that multiplies the key's position.
    float const* biases;

    std::int32_t heads;
    std::int32_t kv_heads;
    /// Query heads of a key-value head.
    std::int32_t group;
    std::int32_t key_dim;
    std::int32_t value_dim;
    float scale;
    float soft_cap;
    /// 0: none.
    std::int32_t window;
    /// Positions of a chunk, whose keys its queries see; 0: there are none.
    std::int32_t position_chunk;
    std::int32_t bias_reach;
    /// 1; 0 where queries see none of their sequence's own rows.
    std::int32_t own;
    bool is_causal;

    /// At most.
    std::int64_t tokens;
    std::int64_t sequences;
    /// Of sequences of one token: parts that a block attends to, 1 or a span's; 0: all of them, and it finishes the rows.
    std::int32_t chunk;
    /// Of a row at most.
    std::int32_t chunks;
    /// Where blocks leave what they have summed: values [sequences, heads, chunks, value_dim], then greatest scores and weights
    /// [sequences, heads, chunks, 2].
    float* workspace;

    /// Of queries and results.
    RowElement element = RowElement::f32;
};

/// An attention over a step table as its kernels take it.
template <class Cache>
struct StepAttentionCall : StepAttentionPlan {
    StepRowsCall<Cache> k;
    StepRowsCall<Cache> v;
};

/// Where a row stands, and the keys that it sees.
struct SeenKeys {
    std::int32_t position;
    std::int32_t begin;
    std::int32_t end;
};

/// Of a query at a position of a context of so many keys.
[[nodiscard]] SHARDWISE_DEVICE inline SeenKeys seen_keys_at(StepAttentionPlan const& call, std::int32_t position,
                                                            std::int32_t length) {
    SeenKeys seen{position, 0, length};
    if (call.is_causal) seen.end = position + 1;
    if (call.window > 0) {
        if (call.window <= position) seen.begin = position - call.window + 1;
        if (!call.is_causal && call.window < seen.end - position) seen.end = position + call.window;
    }
    if (call.position_chunk > 0) {
        auto const chunk = static_cast<std::uint32_t>(call.position_chunk);
        auto const first = static_cast<std::int32_t>(static_cast<std::uint32_t>(position) / chunk * chunk);
        if (seen.begin < first) seen.begin = first;
    }
    return seen;
}
/// Of a query of a sequence.
[[nodiscard]] SHARDWISE_DEVICE inline SeenKeys seen_keys(StepAttentionPlan const& call, std::int32_t sequence,
                                                         std::int32_t query) {
    auto const past = call.pages == nullptr ? 0 : call.past[sequence];
    return seen_keys_at(call, past + query, past + call.own * call.rows[sequence]);
}

/// Where the keys of a sequence lie.
struct KeyPlaces {
    /// Null: one after another from `first` on.
    std::int32_t const* pages;
    std::int64_t first;
    int page_shift;

    [[nodiscard]] SHARDWISE_DEVICE std::int64_t of(std::int32_t key) const {
        if (pages == nullptr) return first + key;
        return (static_cast<std::int64_t>(pages[key >> page_shift]) << page_shift) + (key & ((1 << page_shift) - 1));
    }
};

[[nodiscard]] SHARDWISE_DEVICE inline KeyPlaces key_places(StepAttentionPlan const& call, std::int32_t sequence) {
    auto const* const pages = call.pages == nullptr ? nullptr : call.pages + sequence * call.list;
    return {pages, call.first[sequence], call.page_shift};
}

/// Floats of a workspace for so many rows and chunks of their contexts.
[[nodiscard]] constexpr std::int64_t step_workspace_floats(std::int64_t rows, std::int64_t chunks,
                                                           std::int64_t value_dim) {
    return rows * chunks * (value_dim + 2);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
