// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What an xIELU is called with, on any back end.
template <class T, class Backend>
[[nodiscard]] Result<> check_xielu(TensorView<T const, 2, Backend> const& in,
                                   TensorView<float const, 1, Backend> const& numbers,
                                   TensorView<T, 2, Backend> const& out) {
    if (auto const known = check_views("xielu", numbers); !known) return known;
    if (auto const checked = check_rows("xielu", in, in.extent(1), out); !checked) return checked;
    if (numbers.elements() == 4) return {};
    return Error{ErrorCode::shape_mismatch}
        .in("xielu")
        .at("numbers")
        .because("are not alpha_p, alpha_n, beta and eps")
        .got(numbers.elements())
        .expected(4);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
