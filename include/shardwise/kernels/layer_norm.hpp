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

/// layer_norm of rows that fit, which who calls has asked once; they take rows of weights in turn.
template <ActivationElement T>
[[nodiscard]] Result<> layer_norm_bound(TensorView<T const, 2, Host> in, TensorView<T const, 2, Host> weights,
                                        TensorView<T const, 1, Host> bias, TensorView<T, 2, Host> out, float epsilon,
                                        HostStream& stream) {
    if (!stream.isa()) return stream.isa().error();
    auto const width = in.extent(1);
    auto const kernel = detail::choose_kernel<void (*)(T const*, T const*, T const*, T*, std::int64_t, float)>(
        *stream.isa(), SHARDWISE_KERNEL_LEVELS(layer_norm_row<T>));
    auto const* const shift = bias.empty() ? nullptr : bias.data();
    auto const normalise = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            kernel(in.row(row), weights.row(row % weights.extent(0)), shift, out.row(row), width, epsilon);
        }
    };
    Host::launch(in.extent(0), normalise, stream, detail::row_grain(width));
    return {};
}

}  // namespace detail

/// Centres each row and scales it to a variance of 1: out = (in - mean) / sqrt(variance + epsilon) * weight + bias.
///
/// Shapes  in, out [rows, width], out may be in; weight [width]; bias [width] or empty
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
/// Source  Ba, Kiros and Hinton, Layer Normalization, 2016; the variance is that of the row, not of a sample (as torch's)
template <ActivationElement T>
[[nodiscard]] Result<> layer_norm(TensorView<T const, 2, Host> in, TensorView<T const, 1, Host> weight,
                                  TensorView<T const, 1, Host> bias, TensorView<T, 2, Host> out, float epsilon,
                                  HostStream& stream) {
    if (auto const known = check_views("layer_norm", weight, bias); !known) return known;
    auto const width = in.extent(1);
    if (auto const checked = detail::check_rows("layer_norm", in, weight.elements(), out); !checked) return checked;
    if (auto const checked = detail::check_bias("layer_norm", bias, width); !checked) return checked;
    TensorView<T const, 2, Host> const one(weight.data(), {1, weight.elements()});
    return detail::layer_norm_bound<T>(in, one, bias, out, epsilon, stream);
}

/// The same of heads, each with a weight of its own and without a bias.
///
/// Shapes  in, out [tokens * heads, width], row i of head i mod heads, out may be in; weights [heads, width] dense
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
template <ActivationElement T>
[[nodiscard]] Result<> layer_norm(TensorView<T const, 2, Host> in, TensorView<T const, 2, Host> weights,
                                  TensorView<T, 2, Host> out, float epsilon, HostStream& stream) {
    if (auto const checked = detail::check_rows("layer_norm", in, weights.extent(1), out); !checked) return checked;
    if (auto const checked = detail::check_head_weights("layer_norm", weights, in.extent(0)); !checked) return checked;
    return detail::layer_norm_bound<T>(in, weights, {}, out, epsilon, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
