// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What weighs tokens' rows for their experts, on any back end.
template <class T, class Backend>
[[nodiscard]] Result<> check_weighed(TensorView<T const, 2, Backend> const& in,
                                     TensorView<std::int32_t const, 1, Backend> const& places,
                                     TensorView<float const, 2, Backend> const& weights,
                                     TensorView<T, 2, Backend> const& out) {
    if (auto const known = check_views("weigh_rows", in, places, weights, out); !known) return known;
    auto const refuse = [](std::string_view place, std::string_view reason, std::int64_t got, std::int64_t expected) {
        return Error{ErrorCode::shape_mismatch}.in("weigh_rows").at(place).because(reason).got(got).expected(expected);
    };
    if (out.extent(1) != in.extent(1)) return refuse("out", "is not as wide as the input", out.extent(1), in.extent(1));
    if (weights.extent(0) != in.extent(0))
        return refuse("weights", "do not have a row per token", weights.extent(0), in.extent(0));
    if (places.elements() != weights.elements())
        return refuse("places", "are not one for each weight", places.elements(), weights.elements());
    if (out.extent(0) != weights.elements())
        return refuse("out", "does not have a row for each weight", out.extent(0), weights.elements());
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
