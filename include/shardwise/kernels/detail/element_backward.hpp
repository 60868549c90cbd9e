// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/check_gradients.hpp>
#include <shardwise/kernels/detail/lanes_backward.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Runs apply(row, begin, end) over pieces of gradients that are made element by element from an input of the same shape.
template <class Apply>
[[nodiscard]] Result<> launch_elements(std::string_view kernel, TensorView<float const, 2, Host> const& in,
                                       TensorView<float const, 2, Host> const& out_gradient,
                                       TensorView<float, 2, Host> const& in_gradient, HostStream& stream,
                                       Apply const& apply) {
    if (auto const known = check_views(kernel, in, out_gradient, in_gradient); !known) return known;
    auto const rows = in.extent(0);
    auto const width = in.extent(1);
    if (auto const checked = check_shape(kernel, "out_gradient", out_gradient, rows, width); !checked) return checked;
    if (auto const checked = check_shape(kernel, "in_gradient", in_gradient, rows, width); !checked) return checked;
    launch_pieces({rows, width}, apply, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
