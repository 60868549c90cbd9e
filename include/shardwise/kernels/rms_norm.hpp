// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// rms_norm of rows that fit, which who calls has asked once; they take rows of weights in turn.
template <ActivationElement T>
[[nodiscard]] Result<> rms_norm_bound(TensorView<T const, 2, Host> in, TensorView<T const, 2, Host> weights,
                                      TensorView<T, 2, Host> out, float epsilon, HostStream& stream,
                                      float offset = 0.0F) {
    if (!stream.isa()) return stream.isa().error();
    auto const width = in.extent(1);
    auto const kernel = detail::choose_kernel<void (*)(T const*, T const*, T*, std::int64_t, float, float)>(
        *stream.isa(), SHARDWISE_KERNEL_LEVELS(rms_norm_row<T>));
    auto const normalise = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            kernel(in.row(row), weights.row(row % weights.extent(0)), out.row(row), width, epsilon, offset);
        }
    };
    Host::launch(in.extent(0), normalise, stream, detail::row_grain(width));
    return {};
}

}  // namespace detail

/// Scales each row to a root mean square of 1, then by the weight: out = in / rms(in) * (weight + offset). Squares are summed in
/// double.
///
/// Shapes  in, out [rows, width], out may be in; weight [width]
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
/// Source  Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; gemma adds 1 to the weight (`offset`)
template <ActivationElement T>
[[nodiscard]] Result<> rms_norm(TensorView<T const, 2, Host> in, TensorView<T const, 1, Host> weight,
                                TensorView<T, 2, Host> out, float epsilon, HostStream& stream, float offset = 0.0F) {
    if (auto const known = check_views("rms_norm", weight); !known) return known;
    if (auto const checked = detail::check_rows("rms_norm", in, weight.elements(), out); !checked) return checked;
    TensorView<T const, 2, Host> const one(weight.data(), {1, weight.elements()});
    return detail::rms_norm_bound<T>(in, one, out, epsilon, stream, offset);
}

/// The same of heads, each with a weight of its own.
///
/// Shapes  in, out [tokens * heads, width], row i of head i mod heads, out may be in; weights [heads, width] dense
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
template <ActivationElement T>
[[nodiscard]] Result<> rms_norm(TensorView<T const, 2, Host> in, TensorView<T const, 2, Host> weights,
                                TensorView<T, 2, Host> out, float epsilon, HostStream& stream, float offset = 0.0F) {
    if (auto const checked = detail::check_rows("rms_norm", in, weights.extent(1), out); !checked) return checked;
    if (auto const checked = detail::check_head_weights("rms_norm", weights, in.extent(0)); !checked) return checked;
    return detail::rms_norm_bound<T>(in, weights, out, epsilon, stream, offset);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
