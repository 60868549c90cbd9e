// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_cap.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <cmath>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// soft_cap for what is known to fit.
[[nodiscard]] inline Result<> soft_cap_bound(TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                                             float cap, HostStream& stream) {
    auto const bend = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        for (auto i = begin; i < end; ++i) out.row(row)[i] = cap * std::tanh(in.row(row)[i] / cap);
    };
    launch_pieces({in.extent(0), in.extent(1)}, bend, stream);
    return {};
}

}  // namespace detail

/// out = cap * tanh(in / cap), element by element: gemma's logits.
///
/// Shapes  in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for a cap that is not above 0, or not finite
[[nodiscard]] inline Result<> soft_cap(TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out, float cap,
                                       HostStream& stream) {
    if (auto const known = detail::check_cap("soft_cap", cap); !known) return known;
    if (auto const checked = detail::check_rows("soft_cap", in, in.extent(1), out); !checked) return checked;
    return detail::soft_cap_bound(in, out, cap, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
