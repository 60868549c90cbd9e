// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/sampling_options.hpp>

#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One sequence of a batch that is sampled from.
struct SamplingRow {
    SamplingOptions options{};
    /// Tokens that the penalty counts: prompt and output so far.
    std::span<std::int32_t const> history{};
    /// Which sequence and which of its tokens is drawn: both are the counter of the generator.
    std::uint64_t sequence = 0;
    std::uint64_t step = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
