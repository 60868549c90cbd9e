// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/norm_backward.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Doubles that the backward pass of a norm needs beside its tensors: each row's mean and scale.
[[nodiscard]] constexpr std::int64_t norm_backward_workspace(std::int64_t rows) {
    return 2 * rows;
}

/// The gradients of out = in / rms(in) * (weight + offset): with x' = in / rms(in) and g = out_gradient * (weight + offset) that of
/// the input is (g - x' mean(g x')) / rms(in), that of the weight the sum of out_gradient * x' over the rows. Norms of heads are
/// those of rows that are a head wide.
///
/// Shapes  in, out_gradient [rows, width]; weight [width]; in_gradient [rows, width] and weight_gradient [width], either may be
///         empty; workspace [norm_backward_workspace(rows)]
/// Memory  in_gradient overlaps nothing else; allocates nothing
/// Order   on `stream`; sums in double, over a row by lanes, over rows in their order, rounded once before they are added to what
///         is there: threads take rows and columns
/// Errors  shape_mismatch; what the stream says of its instruction set
[[nodiscard]] inline Result<> rms_norm_backward(TensorView<float const, 2, Host> in,
                                                TensorView<float const, 1, Host> weight,
                                                TensorView<float const, 2, Host> out_gradient,
                                                TensorView<float, 2, Host> in_gradient, bool is_input_added,
                                                TensorView<float, 1, Host> weight_gradient, bool is_weight_added,
                                                TensorView<double, 1, Host> workspace, float epsilon,
                                                HostStream& stream, float offset = 0.0F) {
    detail::NormBackward const norm{in,        weight,  out_gradient, in_gradient, weight_gradient, {},
                                    workspace, epsilon, offset,       false,       is_input_added,  is_weight_added};
    return norm.run("rms_norm_backward", stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
