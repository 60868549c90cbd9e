// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A table look-up of `width` columns.
template <class T, class Backend>
[[nodiscard]] Result<> check_embedding(TensorView<std::int32_t const, 1, Backend> const& ids, std::int64_t width,
                                       TensorView<T, 2, Backend> const& out) {
    if (auto const known = check_views("embedding", ids, out); !known) return known;
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("embedding"); };
    if (out.extent(1) != width)
        return refused().because("the output is not as wide as the table").got(out.extent(1)).expected(width);
    if (out.extent(0) == ids.elements()) return {};
    return refused()
        .because("the output has another number of rows than there are ids")
        .got(out.extent(0))
        .expected(ids.elements());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
