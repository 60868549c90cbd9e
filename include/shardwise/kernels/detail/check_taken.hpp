// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows of a matrix by their numbers.
template <class T, class Backend>
[[nodiscard]] Result<> check_taken(std::string_view kernel, TensorView<std::int32_t const, 1, Backend> const& numbers,
                                   TensorView<T const, 2, Backend> const& in, TensorView<T, 2, Backend> const& out) {
    if (auto const known = check_views(kernel, numbers, in, out); !known) return known;
    auto const refused = [&] { return Error{ErrorCode::shape_mismatch}.in(kernel); };
    if (out.extent(1) != in.extent(1))
        return refused().because("the output is not as wide as the input").got(out.extent(1)).expected(in.extent(1));
    if (out.extent(0) == numbers.elements()) return {};
    return refused()
        .because("the output has another number of rows than are asked for")
        .got(out.extent(0))
        .expected(numbers.elements());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
