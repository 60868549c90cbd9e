// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/op/router_score.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How each token's experts are chosen and weighted.
struct RouterOptions {
    std::int64_t experts_per_token = 1;
    RouterScore score = RouterScore::softmax;
    /// The chosen weights are divided by their sum and 1e-20, which only sigmoids of very negative logits come near.
    bool renormalises = false;
    /// Multiplies the weights at last.
    float scale = 1.0F;
    /// Experts are in this many groups of equal size, and only those of the best `kept_groups` are chosen from; 0: no groups.
    std::int64_t groups = 0;
    std::int64_t kept_groups = 0;
    GroupRank group_rank = GroupRank::best;
    /// Of sparse_mixer: logits come near the best one where they fall short of it by no more than this share of themselves.
    float near_share = 0.0F;
};

namespace detail {

/// Added to the sum that weights are divided by: sigmoids may all be zero.
///
/// Source  transformers 4.57 DeepseekV3TopkRouter
inline constexpr float min_weight_sum = 1e-20F;

/// Turns one token's logits into scores, in place.
inline void score_experts(float* scores, std::int64_t experts, RouterScore kind) {
    if (kind == RouterScore::softmax_chosen || kind == RouterScore::sparse_mixer) return;
    if (kind == RouterScore::sigmoid) {
        for (std::int64_t i = 0; i < experts; ++i) scores[i] = 1.0F / (1.0F + std::exp(-scores[i]));
        return;
    }
    auto largest = scores[0];
    for (std::int64_t i = 1; i < experts; ++i) largest = scores[i] > largest ? scores[i] : largest;
    float sum = 0.0F;
    for (std::int64_t i = 0; i < experts; ++i) sum += scores[i] = std::exp(scores[i] - largest);
    for (std::int64_t i = 0; i < experts; ++i) scores[i] /= sum;
}

/// Whether a rank is above another. What is no number is above all, as for torch's topk: the weights tell of it.
[[nodiscard]] inline bool is_above(float rank, float other) {
    return rank > other || (std::isnan(rank) && !std::isnan(other));
}

/// The best of `count` ranks that are not taken yet, the first of equals; -1 where all are.
[[nodiscard]] inline std::int64_t best_left(float const* ranks, std::int64_t count,
                                            List<unsigned char> const& is_taken) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < count; ++i) {
        if (is_taken[static_cast<std::size_t>(i)] == 0 && (best < 0 || is_above(ranks[i], ranks[best]))) best = i;
    }
    return best;
}

/// The weight of the best of the logits that are not taken: its softmax over those of them that come near it.
[[nodiscard]] inline float mix_weight(float const* logits, std::int64_t experts, std::int64_t best, float near_share,
                                      List<unsigned char> const& is_taken) {
    auto const most = logits[best];
    float sum = 0.0F;
    for (std::int64_t i = 0; i < experts; ++i) {
        auto const size = std::abs(logits[i]);
        bool const is_far = (most - logits[i]) / (size > most ? size : most) > near_share;
        if (is_taken[static_cast<std::size_t>(i)] == 0 && !is_far) sum += std::exp(logits[i] - most);
    }
    return 1.0F / sum;
}

/// Errors  invalid_argument for groups that do not divide the experts or are too few
[[nodiscard]] inline Result<> check_groups(RouterOptions const& options, std::int64_t experts) {
    auto const refuse = [](std::string_view place, std::string_view reason, std::int64_t got) {
        return Error{ErrorCode::invalid_argument}.in("route").at(place).because(reason).got(got);
    };
    auto const groups = options.groups;
    auto const kept = options.kept_groups;
    if (groups == 0) return {};
    if (groups < 0 || experts % groups != 0)
        return refuse("groups", "do not divide the experts", groups).divisor_of(experts);
    if (kept < 1 || kept > groups)
        return refuse("kept_groups", "must be of the groups, and at least 1", kept).between(1, groups);
    auto const held = kept * (experts / groups);
    if (held >= options.experts_per_token) return {};
    return refuse("kept_groups", "hold fewer experts than each token is to have", held)
        .at_least(options.experts_per_token);
}

/// Marks the experts of all but the best groups as taken.
inline void drop_groups(float const* ranks, std::int64_t experts, RouterOptions const& options,
                        List<unsigned char>& is_taken) {
    auto const width = experts / options.groups;
    List<float> group_ranks(static_cast<std::size_t>(options.groups));
    for (std::int64_t group = 0; group < options.groups; ++group) {
        auto const* const members = ranks + group * width;
        auto first = -INFINITY;
        auto second = -INFINITY;
        for (std::int64_t i = 0; i < width; ++i) {
            if (is_above(members[i], first)) {
                second = first;
                first = members[i];
            } else if (is_above(members[i], second)) {
                second = members[i];
            }
        }
        bool const counts_two = options.group_rank == GroupRank::best_two && width > 1;
        group_ranks[static_cast<std::size_t>(group)] = counts_two ? first + second : first;
    }
    List<unsigned char> is_kept(group_ranks.size(), 0);
    for (std::int64_t i = 0; i < options.kept_groups; ++i) {
        auto const best = best_left(group_ranks.data(), options.groups, is_kept);
        if (best < 0) break;
        is_kept[static_cast<std::size_t>(best)] = 1;
    }
    for (std::int64_t i = 0; i < experts; ++i) {
        is_taken[static_cast<std::size_t>(i)] = is_kept[static_cast<std::size_t>(i / width)] == 0 ? 1 : 0;
    }
}

}  // namespace detail

/// Chooses each token's experts, the best first, the lower number of equals, and their weights. Of groups that are not
/// kept no expert is chosen, as in DeepSeek's own code; transformers 4.57 gives these a rank of 0, which a negative
/// correction can push the others below. A logit that is no number is chosen before all others, and its weight is none.
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
    if (auto const known = check_views("route", logits, correction, ids, weights); !known) return known;
    auto const experts = logits.extent(1);
    auto const chosen = options.experts_per_token;
    Error error{ErrorCode::shape_mismatch};
    error.in("route");
    if (chosen < 1 || chosen > experts)
        return error.because("asks for another number of experts than there are").got(chosen).between(1, experts);
    auto const tokens = logits.extent(0);
    if (ids.extent(0) != tokens || weights.extent(0) != tokens) {
        return error.because("ids and weights do not have a row per token")
            .got(ids.extent(0) != tokens ? ids.extent(0) : weights.extent(0))
            .expected(tokens);
    }
    if (ids.extent(1) != chosen || weights.extent(1) != chosen) {
        return error.because("ids and weights do not have a column per chosen expert")
            .got(ids.extent(1) != chosen ? ids.extent(1) : weights.extent(1))
            .expected(chosen);
    }
    if (!correction.empty() && correction.elements() != experts) {
        return error.because("the correction has another number of experts")
            .got(correction.elements())
            .expected(experts);
    }
    if (auto const checked = detail::check_groups(options, experts); !checked) return checked;
    auto const choose = [=](std::int64_t begin, std::int64_t end) {
        List<float> scores(static_cast<std::size_t>(experts));
        List<float> ranks(static_cast<std::size_t>(experts));
        List<unsigned char> is_taken(static_cast<std::size_t>(experts), 0);
        for (auto token = begin; token < end; ++token) {
            for (std::int64_t i = 0; i < experts; ++i) scores[static_cast<std::size_t>(i)] = logits.row(token)[i];
            detail::score_experts(scores.data(), experts, options.score);
            for (std::int64_t i = 0; i < experts; ++i) {
                auto const k = static_cast<std::size_t>(i);
                ranks[k] = scores[k] + (correction.empty() ? 0.0F : correction.data()[i]);
                is_taken[k] = 0;
            }
            if (options.groups > 0) detail::drop_groups(ranks.data(), experts, options, is_taken);
            auto* const token_weights = weights.row(token);
            for (std::int64_t i = 0; i < chosen; ++i) {
                auto const expert = detail::best_left(ranks.data(), experts, is_taken);
                if (options.score == RouterScore::sparse_mixer) {
                    token_weights[i] = detail::mix_weight(scores.data(), experts, expert, options.near_share, is_taken);
                } else {
                    token_weights[i] = scores[static_cast<std::size_t>(expert)];
                }
                is_taken[static_cast<std::size_t>(expert)] = 1;
                ids.row(token)[i] = static_cast<std::int32_t>(expert);
            }
            if (options.score == RouterScore::softmax_chosen)
                detail::score_experts(token_weights, chosen, RouterScore::softmax);
            float sum = 0.0F;
            for (std::int64_t i = 0; i < chosen; ++i) sum += token_weights[i];
            auto const divisor = options.renormalises ? sum + detail::min_weight_sum : 1.0F;
            for (std::int64_t i = 0; i < chosen; ++i) token_weights[i] = token_weights[i] / divisor * options.scale;
        }
    };
    Host::launch(logits.extent(0), choose, stream, 16);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
