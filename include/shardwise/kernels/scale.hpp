// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// scale for what is known to fit.
template <ActivationElement T>
[[nodiscard]] Result<> scale_bound(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out, float factor,
                                   HostStream& stream) {
    auto const multiply = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        auto const* const from = in.row(row);
        auto* const to = out.row(row);
        for (auto i = begin; i < end; ++i) to[i] = T(static_cast<float>(from[i]) * factor);
    };
    launch_pieces({in.extent(0), in.extent(1)}, multiply, stream);
    return {};
}

}  // namespace detail

/// out = factor * in, element by element: the multipliers of granite and its kin.
///
/// Shapes  in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T>
[[nodiscard]] Result<> scale(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out, float factor,
                             HostStream& stream) {
    if (auto const checked = detail::check_rows("scale", in, in.extent(1), out); !checked) return checked;
    return detail::scale_bound<T>(in, out, factor, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
