// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/gemm_options.hpp>
#include <shardwise/backend/host/gemm.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/check_gradients.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes_backward.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

// Of out = in * weight^T + bias. The three gradients are apart: a pipeline makes those of parameters later. A float bound to each:
// a sum of n products has at most n + 1 roundings of the size of its products.

/// How a gradient of a product is made.
struct LinearGradientOptions {
    /// Adds to what is there.
    bool is_added = false;
    /// GemmOptions::rounds_to_bf16.
    bool rounds_to_bf16 = false;
};

/// in_gradient = out_gradient * weight, or += it.
///
/// Shapes  out_gradient [tokens, outputs], weight [outputs, inputs], in_gradient [tokens, inputs]
/// Order   on `stream`; sums over the outputs as Host::gemm's, whatever the tokens and threads
/// Errors  shape_mismatch; what the stream says of its instruction set
[[nodiscard]] inline Result<> linear_input_gradient(TensorView<float const, 2, Host> out_gradient,
                                                    TensorView<float const, 2, Host> weight,
                                                    TensorView<float, 2, Host> in_gradient,
                                                    LinearGradientOptions options, HostStream& stream) {
    return Host::gemm<float>(out_gradient, weight, in_gradient,
                             {.accumulates = options.is_added, .rounds_to_bf16 = options.rounds_to_bf16}, stream);
}

/// weight_gradient = out_gradient^T * in, or += it.
///
/// Shapes  out_gradient [tokens, outputs], in [tokens, inputs], weight_gradient [outputs, inputs]
/// Order   on `stream`; sums over the tokens as Host::gemm's, by default in pieces of 256
/// Errors  shape_mismatch; what the stream says of its instruction set
[[nodiscard]] inline Result<> linear_weight_gradient(TensorView<float const, 2, Host> out_gradient,
                                                     TensorView<float const, 2, Host> in,
                                                     TensorView<float, 2, Host> weight_gradient,
                                                     LinearGradientOptions options, HostStream& stream) {
    return Host::gemm<float>(
        out_gradient, in, weight_gradient,
        {.is_a_transposed = true, .accumulates = options.is_added, .rounds_to_bf16 = options.rounds_to_bf16}, stream);
}

/// bias_gradient = the sum of out_gradient's rows, or += it: in double in the order of the rows, rounded once before it is added.
///
/// Shapes  out_gradient [tokens, outputs], bias_gradient [outputs]
/// Order   on `stream`; threads take columns
/// Errors  shape_mismatch; what the stream says of its instruction set
[[nodiscard]] inline Result<> linear_bias_gradient(TensorView<float const, 2, Host> out_gradient,
                                                   TensorView<float, 1, Host> bias_gradient, bool is_added,
                                                   HostStream& stream) {
    constexpr std::string_view name = "linear_bias_gradient";
    if (auto const known = check_views(name, out_gradient, bias_gradient); !known) return known;
    auto const width = out_gradient.extent(1);
    if (auto const checked = detail::check_columns(name, "bias_gradient", bias_gradient, width, false); !checked)
        return checked;
    if (!stream.isa()) return stream.isa().error();
    using Kernel = void (*)(float const*, std::int64_t, std::int64_t, std::int64_t, std::int64_t, float*, bool);
    auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(sum_columns));
    auto const add_up = [=](std::int64_t begin, std::int64_t end) {
        kernel(out_gradient.data(), out_gradient.stride(0), out_gradient.extent(0), begin, end, bias_gradient.data(),
               is_added);
    };
    Host::launch(width, add_up, stream, detail::row_grain(out_gradient.extent(0)));
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
