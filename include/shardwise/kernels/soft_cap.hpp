// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_cap.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/lanes.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// soft_cap for what is known to fit.
[[nodiscard]] inline Result<> soft_cap_bound(TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                                             float cap, HostStream& stream) {
    if (!stream.isa()) return stream.isa().error();
    using Kernel = void (*)(float*, std::int64_t, float, float);
    auto const finish = choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(finish_logits));
    auto const bend = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        auto* const to = out.row(row) + begin;
        if (in.row(row) != out.row(row)) std::copy(in.row(row) + begin, in.row(row) + end, to);
        finish(to, end - begin, 1.0F, cap);
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
