// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/router_options.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

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

/// What a router is called with, on any back end.
template <class Backend>
[[nodiscard]] Result<> check_route(TensorView<float const, 2, Backend> const& logits,
                                   TensorView<float const, 1, Backend> const& correction,
                                   TensorView<std::int32_t, 2, Backend> const& ids,
                                   TensorView<float, 2, Backend> const& weights, RouterOptions const& options) {
    if (auto const known = check_views("route", logits, correction, ids, weights); !known) return known;
    auto const experts = logits.extent(1);
    auto const chosen = options.experts_per_token;
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("route"); };
    if (chosen < 1 || chosen > experts)
        return refused().because("asks for another number of experts than there are").got(chosen).between(1, experts);
    auto const tokens = logits.extent(0);
    if (ids.extent(0) != tokens || weights.extent(0) != tokens) {
        return refused()
            .because("ids and weights do not have a row per token")
            .got(ids.extent(0) != tokens ? ids.extent(0) : weights.extent(0))
            .expected(tokens);
    }
    if (ids.extent(1) != chosen || weights.extent(1) != chosen) {
        return refused()
            .because("ids and weights do not have a column per chosen expert")
            .got(ids.extent(1) != chosen ? ids.extent(1) : weights.extent(1))
            .expected(chosen);
    }
    if (!correction.empty() && correction.elements() != experts) {
        return refused()
            .because("the correction has another number of experts")
            .got(correction.elements())
            .expected(experts);
    }
    return check_groups(options, experts);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
