// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <limits>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// One place for each of `rows` rows.
template <class Out, class Backend>
[[nodiscard]] Result<> check_found(std::string_view kernel, std::int64_t rows,
                                   TensorView<Out, 1, Backend> const& found) {
    if (auto const known = check_views(kernel, found); !known) return known;
    if (found.elements() == rows) return {};
    return Error{ErrorCode::shape_mismatch}
        .in(kernel)
        .because("there is not one place for each row")
        .got(found.elements())
        .expected(rows);
}

/// Logits whose ids, from `first_id` on, are 32-bit numbers.
template <class Out, class Backend>
[[nodiscard]] Result<> check_arg_max(std::string_view kernel, TensorView<float const, 2, Backend> const& logits,
                                     std::int64_t first_id, TensorView<Out, 1, Backend> const& found) {
    if (auto const known = check_views(kernel, logits); !known) return known;
    if (auto const checked = check_found(kernel, logits.extent(0), found); !checked) return checked;
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    auto const width = logits.extent(1);
    if (first_id >= 0 && width <= most && first_id <= most - width) return {};
    return Error{ErrorCode::invalid_argument}
        .in(kernel)
        .at("first_id")
        .because("is negative, or ids from it on leave 31 bits")
        .got(first_id)
        .between(0, most);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
