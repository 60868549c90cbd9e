// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/kernels/detail/exact_math.hpp>
#include <shardwise/kernels/detail/logit_key.hpp>

#include <cstdint>

// What hosts and devices say about routers with the same bits: both choose the same experts, with the same weights.

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Added to the sum that weights are divided by: sigmoids may all be zero.
///
/// Source  transformers 4.57 DeepseekV3TopkRouter
inline constexpr float min_weight_sum = 1e-20F;

/// A softmax's sum has so many chains of additions, one for each number of an element by this, which are added in their order.
inline constexpr int router_lanes = 16;

/// Whether a rank is above another. What is no number is above all, as for torch's topk: the weights tell of it.
[[nodiscard]] SHARDWISE_DEVICE inline bool is_above(float rank, float other) {
    return rank > other || (rank != rank && other == other);
}

/// Orders as (rank, lower number first): is_above decides, -0 is +0.
[[nodiscard]] SHARDWISE_DEVICE inline std::int64_t rank_key(float rank, std::int64_t number) {
    if (rank == rank) return logit_key(rank, number);
    return std::int64_t{0x7FFF'FFFF} * (std::int64_t{1} << 32) + (std::int64_t{0xFFFF'FFFF} - number);
}

/// A logit as a score of its own.
[[nodiscard]] SHARDWISE_DEVICE inline float router_sigmoid(float logit) {
    return 1.0F / (1.0F + exact_exp(-logit));
}

/// How high a group of experts stands, by the ranks of its members.
[[nodiscard]] SHARDWISE_DEVICE inline float rank_of_group(float const* members, std::int64_t width, bool counts_two) {
    auto first = float_of_bits(0xFF800000U);
    auto second = first;
    for (std::int64_t i = 0; i < width; ++i) {
        if (is_above(members[i], first)) {
            second = first;
            first = members[i];
        } else if (is_above(members[i], second)) {
            second = members[i];
        }
    }
    return counts_two && width > 1 ? first + second : first;
}

/// The weight of the best of the logits that are not taken: its softmax over those of them that come near it.
template <class IsTaken>
[[nodiscard]] SHARDWISE_DEVICE float mix_weight(float const* logits, std::int64_t experts, float most, float near_share,
                                                IsTaken const& is_taken) {
    float sum = 0.0F;
    for (std::int64_t i = 0; i < experts; ++i) {
        auto const size = logits[i] < 0.0F ? -logits[i] : logits[i];
        bool const is_far = (most - logits[i]) / (size > most ? size : most) > near_share;
        if (!is_taken(i) && !is_far) sum += exact_exp(logits[i] - most);
    }
    return 1.0F / sum;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
