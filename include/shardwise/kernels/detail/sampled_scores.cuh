// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/exact_math.hpp>
#include <shardwise/kernels/detail/load_floats.hpp>
#include <shardwise/kernels/detail/sample_call.hpp>
#include <shardwise/kernels/detail/sampling_weights.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a row's tokens are drawn by: the host's scores (kernels/sample.hpp), computed again wherever one is looked at.
struct SampledScores {
    float const* logits;
    /// Of the tokens that the penalty counts; null: of none.
    std::uint32_t const* marks;
    float penalty;
    /// What scores are distances from, and what divides them.
    float origin;
    float temperature;
    /// The greatest score.
    float best;

    /// A logit after the penalty. `marked` has the token's bit first.
    [[nodiscard]] __device__ float penalised(float logit, std::uint32_t marked) const {
        if ((marked & 1U) == 0) return logit;
        return logit < 0.0F ? product_of(logit, penalty) : logit / penalty;
    }
    [[nodiscard]] __device__ float logit_of(std::int64_t token) const {
        return penalised(logits[token], marks == nullptr ? 0U : marks[token / 32] >> (token % 32));
    }
    [[nodiscard]] __device__ float score_of(float logit) const { return (logit - origin) / temperature; }
};

/// Orders as floats do, and -0 as +0.
[[nodiscard]] __device__ inline std::uint32_t score_key(float score) {
    auto const bits = bits_of_float(score + 0.0F);
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/// The score of a key; of both zeros +0.
[[nodiscard]] __device__ inline float score_of_key(std::uint32_t key) {
    return float_of_bits((key & 0x80000000U) != 0 ? key ^ 0x80000000U : ~key);
}

/// The last token that is drawn from, in the order of scores and, of equals, of tokens.
struct SampleCut {
    std::uint32_t key = 0;
    std::uint32_t token = 0xFFFFFFFFU;

    [[nodiscard]] __device__ bool keeps(std::uint32_t other, std::uint32_t number) const {
        return other > key || (other == key && number <= token);
    }
};

/// Scores this much below the best have no weight (sampling_weight).
constexpr float sampled_reach = 30.0F;
constexpr int sampled_bins = 2048;

/// Distances from the best score in bins of equal width.
[[nodiscard]] __device__ inline std::uint32_t bin_of_distance(float distance) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(product_of(distance, 68.0F)));
}

/// Calls body(logit, token) for a block's share of a row, `width` of them at once. `at_once`: loads of a thread that are under way
/// together.
template <unsigned width, int threads, unsigned at_once, class Body>
__device__ void for_logits(SampledScores const& row, std::int32_t tokens, Body const& body) {
    auto const portions = static_cast<std::uint32_t>(tokens) / width;
    for (auto first = static_cast<std::uint32_t>(threadIdx.x); first < portions; first += at_once * threads) {
        float values[at_once][width];
        SHARDWISE_DEVICE_UNROLL
        for (unsigned k = 0; k < at_once; ++k) {
            auto const at = first + k * threads;
            if (at < portions) load_floats(row.logits + at * width, values[k]);
        }
        SHARDWISE_DEVICE_UNROLL
        for (unsigned k = 0; k < at_once; ++k) {
            auto const at = first + k * threads;
            if (at >= portions) continue;
            auto const token = at * width;
            auto const marked = row.marks == nullptr ? 0U : row.marks[token / 32] >> (token % 32);
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) body(row.penalised(values[k][i], marked >> i), token + i);
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
