// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_route.hpp>
#include <shardwise/kernels/detail/router_math.hpp>
#include <shardwise/kernels/detail/thread_array.hpp>
#include <shardwise/kernels/router_options.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A softmax of `count` values, in place.
inline void softmax_of_router(float* values, std::int64_t count) {
    auto largest = values[0];
    for (std::int64_t i = 1; i < count; ++i) largest = values[i] > largest ? values[i] : largest;
    float lanes[router_lanes] = {};
    for (std::int64_t i = 0; i < count; ++i) lanes[i % router_lanes] += values[i] = exact_exp(values[i] - largest);
    auto sum = lanes[0];
    for (int lane = 1; lane < router_lanes; ++lane) sum += lanes[lane];
    for (std::int64_t i = 0; i < count; ++i) values[i] /= sum;
}

/// Turns one token's logits into scores, in place.
inline void score_experts(float* scores, std::int64_t experts, RouterScore kind) {
    switch (kind) {
        case RouterScore::softmax:
            return softmax_of_router(scores, experts);
        case RouterScore::sigmoid:
            for (std::int64_t i = 0; i < experts; ++i) scores[i] = router_sigmoid(scores[i]);
            return;
        case RouterScore::softmax_chosen:
        case RouterScore::sparse_mixer:
            return;
    }
}

/// The best of `count` ranks that are not taken yet, the first of equals; -1 where all are.
[[nodiscard]] inline std::int64_t best_left(float const* ranks, std::int64_t count, unsigned char const* is_taken) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < count; ++i) {
        if (is_taken[i] == 0 && (best < 0 || is_above(ranks[i], ranks[best]))) best = i;
    }
    return best;
}

/// Marks the experts of all but the best groups as taken.
inline void drop_groups(float const* ranks, std::int64_t experts, RouterOptions const& options,
                        unsigned char* is_taken) {
    auto const width = experts / options.groups;
    ThreadArray<float, 64> ranks_of_groups(options.groups);
    ThreadArray<unsigned char, 64> kept(options.groups);
    auto* const group_ranks = ranks_of_groups.data();
    auto* const is_kept = kept.data();
    for (std::int64_t group = 0; group < options.groups; ++group) {
        group_ranks[group] = rank_of_group(ranks + group * width, width, options.group_rank == GroupRank::best_two);
        is_kept[group] = 0;
    }
    for (std::int64_t i = 0; i < options.kept_groups; ++i) {
        auto const best = best_left(group_ranks, options.groups, is_kept);
        if (best < 0) break;
        is_kept[best] = 1;
    }
    for (std::int64_t i = 0; i < experts; ++i) is_taken[i] = is_kept[i / width] == 0 ? 1 : 0;
}

/// route for what is known to fit.
[[nodiscard]] inline Result<> route_bound(TensorView<float const, 2, Host> logits,
                                          TensorView<float const, 1, Host> correction,
                                          TensorView<std::int32_t, 2, Host> ids, TensorView<float, 2, Host> weights,
                                          RouterOptions const& options, HostStream& stream) {
    auto const experts = logits.extent(1);
    auto const chosen = options.experts_per_token;
    auto const choose = [=](std::int64_t begin, std::int64_t end) {
        ThreadArray<float, 512> all_scores(experts);
        ThreadArray<float, 512> all_ranks(experts);
        ThreadArray<unsigned char, 512> taken(experts);
        auto* const scores = all_scores.data();
        auto* const ranks = all_ranks.data();
        auto* const is_taken = taken.data();
        for (auto token = begin; token < end; ++token) {
            for (std::int64_t i = 0; i < experts; ++i) scores[i] = logits.row(token)[i];
            score_experts(scores, experts, options.score);
            for (std::int64_t i = 0; i < experts; ++i) {
                ranks[i] = scores[i] + (correction.empty() ? 0.0F : correction.data()[i]);
                is_taken[i] = 0;
            }
            if (options.groups > 0) drop_groups(ranks, experts, options, is_taken);
            auto* const token_weights = weights.row(token);
            for (std::int64_t i = 0; i < chosen; ++i) {
                auto const expert = best_left(ranks, experts, is_taken);
                if (options.score == RouterScore::sparse_mixer) {
                    token_weights[i] = mix_weight(scores, experts, scores[expert], options.near_share,
                                                  [is_taken](std::int64_t other) { return is_taken[other] != 0; });
                } else {
                    token_weights[i] = scores[expert];
                }
                is_taken[expert] = 1;
                ids.row(token)[i] = static_cast<std::int32_t>(expert);
            }
            if (options.score == RouterScore::softmax_chosen) softmax_of_router(token_weights, chosen);
            float sum = 0.0F;
            for (std::int64_t i = 0; i < chosen; ++i) sum += token_weights[i];
            auto const divisor = options.renormalises ? sum + min_weight_sum : 1.0F;
            for (std::int64_t i = 0; i < chosen; ++i) token_weights[i] = token_weights[i] / divisor * options.scale;
        }
    };
    Host::launch(logits.extent(0), choose, stream, 16);
    return {};
}

}  // namespace detail

/// Chooses each token's experts, the best first, the lower number of equals, and their weights. Of groups that are not
/// kept no expert is chosen, as in DeepSeek's own code; transformers 4.57 gives these a rank of 0, which a negative
/// correction can push the others below. A logit that is no number is chosen before all others, and its weight is none. The bits
/// are those of devices: exponentials are a series of ours, and a softmax's sum has an order that both keep.
///
/// Shapes  logits [tokens, experts]; correction [experts] or empty: added to the scores for the choice, not to the weights
///         (deepseek_v3); ids, weights [tokens, experts_per_token]
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for groups that do not divide the experts or are too few
/// Source  transformers 4.57: MixtralSparseMoeBlock, DeepseekV2MoEGate, DeepseekV3TopkRouter, GptOssTopKRouter,
///         phimoe's sparsemixer
[[nodiscard]] inline Result<> route(TensorView<float const, 2, Host> logits,
                                    TensorView<float const, 1, Host> correction, TensorView<std::int32_t, 2, Host> ids,
                                    TensorView<float, 2, Host> weights, RouterOptions const& options,
                                    HostStream& stream) {
    if (auto const checked = detail::check_route(logits, correction, ids, weights, options); !checked) return checked;
    return detail::route_bound(logits, correction, ids, weights, options, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
