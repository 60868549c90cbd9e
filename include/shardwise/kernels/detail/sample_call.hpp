// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// One row's options as a kernel takes them.
struct SampledRow {
    /// What is drawn with.
    std::uint64_t bits;
    float temperature;
    float top_p;
    float min_p;
    float repetition_penalty;
    /// 0: all tokens.
    std::int32_t top_k;
    /// Its history's place among all, and its length.
    std::int32_t history;
    std::int32_t history_size;
};

/// A choice of tokens as its kernel takes it.
struct SampleCall {
    float const* logits;
    std::int64_t logits_row;
    std::int32_t rows;
    std::int32_t tokens;
    SampledRow const* options;
    std::int32_t const* histories;
    /// Of each row that has a history a bit for each token, in words of 32.
    std::uint32_t* marks;
    std::int32_t* ids;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
