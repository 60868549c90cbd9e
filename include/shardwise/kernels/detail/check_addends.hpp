// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Two matrices of one shape that make a third.
template <class T, class Other, class Backend>
[[nodiscard]] Result<> check_addends(std::string_view kernel, TensorView<T const, 2, Backend> const& a,
                                     TensorView<Other const, 2, Backend> const& b,
                                     TensorView<T, 2, Backend> const& out) {
    if (auto const known = check_views(kernel, b); !known) return known;
    if (auto const checked = check_rows(kernel, a, a.extent(1), out); !checked) return checked;
    bool const has_rows = b.extent(0) == a.extent(0);
    if (has_rows && b.extent(1) == a.extent(1)) return {};
    return Error{ErrorCode::shape_mismatch}
        .in(kernel)
        .because(has_rows ? "the addends differ in width" : "the addends differ in their number of rows")
        .got(b.extent(has_rows ? 1 : 0))
        .expected(a.extent(has_rows ? 1 : 0));
}

/// A row that is added to each row.
template <class Other, class T, class Backend>
[[nodiscard]] Result<> check_added_row(TensorView<Other const, 1, Backend> const& row,
                                       TensorView<T, 2, Backend> const& to) {
    if (auto const known = check_views("add_row", row, to); !known) return known;
    if (row.elements() == to.extent(1)) return {};
    return Error{ErrorCode::shape_mismatch}
        .in("add_row")
        .because("the row is not as wide as those that it is added to")
        .got(row.elements())
        .expected(to.extent(1));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
