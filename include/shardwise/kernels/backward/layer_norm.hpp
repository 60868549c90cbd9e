// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/backward/rms_norm.hpp>
#include <shardwise/kernels/detail/norm_backward.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The gradients of out = (in - mean) / deviation * (weight + offset) + bias: with x' = (in - mean) / deviation and
/// g = out_gradient * (weight + offset) that of the input is (g - mean(g) - x' mean(g x')) / deviation, that of the weight the sum
/// of out_gradient * x' over the rows, that of the bias the sum of out_gradient.
///
/// Shapes  in, out_gradient [rows, width]; weight [width]; in_gradient [rows, width], weight_gradient and bias_gradient [width], each
///         may be empty; workspace [norm_backward_workspace(rows)]
/// Memory  in_gradient overlaps nothing else; allocates nothing
/// Order   on `stream`; sums as rms_norm_backward's
/// Errors  shape_mismatch; what the stream says of its instruction set
[[nodiscard]] inline Result<> layer_norm_backward(
    TensorView<float const, 2, Host> in, TensorView<float const, 1, Host> weight,
    TensorView<float const, 2, Host> out_gradient, TensorView<float, 2, Host> in_gradient, bool is_input_added,
    TensorView<float, 1, Host> weight_gradient, TensorView<float, 1, Host> bias_gradient, bool is_weight_added,
    TensorView<double, 1, Host> workspace, float epsilon, HostStream& stream, float offset = 0.0F) {
    detail::NormBackward const norm{in,        weight,  out_gradient, in_gradient, weight_gradient, bias_gradient,
                                    workspace, epsilon, offset,       true,        is_input_added,  is_weight_added};
    return norm.run("layer_norm_backward", stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
