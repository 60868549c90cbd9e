// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows of queries, each with a position, and how many positions their scores grow after.
template <class T, class Backend>
[[nodiscard]] Result<> check_temperature(TensorView<T, 2, Backend> const& values,
                                         TensorView<std::int32_t const, 1, Backend> const& positions,
                                         std::int64_t step) {
    if (auto const known = check_views("attention_temperature", values, positions); !known) return known;
    if (positions.elements() != values.extent(0)) {
        return Error{ErrorCode::shape_mismatch}
            .in("attention_temperature")
            .because("each token needs a position")
            .got(positions.elements())
            .expected(values.extent(0));
    }
    if (step >= 1) return {};
    return Error{ErrorCode::invalid_argument}
        .in("attention_temperature")
        .at("step")
        .because("is less than one position")
        .got(step)
        .at_least(1);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
