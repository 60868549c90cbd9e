// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/detail/element_wise.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What the backward pass of a rank's shard of a linear layer reads and adds to.
///
/// Shapes  in [tokens, inputs], weight [outputs, inputs], out_gradient [tokens, outputs]; weight_gradient like weight,
///         bias_gradient [outputs] or empty: both are added to; inputs and outputs are those of the shard
template <class Backend>
struct LinearGradients {
    TensorView<float const, 2, Backend> in;
    TensorView<float const, 2, Backend> weight;
    TensorView<float const, 2, Backend> out_gradient;
    TensorView<float, 2, Backend> weight_gradient;
    TensorView<float, 1, Backend> bias_gradient{};
};

/// out = in * weight^T of weights that a trainer keeps as they are: for training, where `hold_weight` would pack them anew in
/// each step.
///
/// Shapes  in [tokens, inputs], weight [outputs, inputs], out [tokens, outputs]
/// Order   on `stream`
/// Errors  shape_mismatch
template <ComputeBackend Backend>
[[nodiscard]] Result<> linear_forward(TensorView<float const, 2, Backend> in,
                                      TensorView<float const, 2, Backend> weight, TensorView<float, 2, Backend> out,
                                      typename Backend::Stream& stream) {
    if (auto const known = check_views("linear_forward", in, weight, out); !known) return known;
    return Backend::template gemm<float>(in, weight, out, {.is_b_transposed = true}, stream);
}

/// in_gradient = out_gradient * weight (or += it), and adds to the gradients of weight and bias, of this rank's shard alone.
/// For a row-parallel layer this is all: the gradient of the rank's inputs needs no other rank (and the bias, which every rank
/// has whole, gets the same gradient everywhere). For column-parallel layers in_gradient is a partial sum: see sum_gradient.
///
/// Shapes  in_gradient [tokens, inputs]
/// Order   on `stream`
/// Errors  shape_mismatch
template <ComputeBackend Backend>
[[nodiscard]] Result<> linear_backward(LinearGradients<Backend> const& linear,
                                       TensorView<float, 2, Backend> in_gradient, bool is_added,
                                       typename Backend::Stream& stream) {
    if (auto const known = check_views("linear_backward", linear.in, linear.out_gradient, linear.weight,
                                       linear.weight_gradient, linear.bias_gradient, in_gradient);
        !known)
        return known;
    if (!linear.bias_gradient.empty() && linear.bias_gradient.elements() != linear.out_gradient.extent(1)) {
        return Error{ErrorCode::shape_mismatch}
            .in("linear_backward")
            .because("the bias has not one gradient per output")
            .got(linear.bias_gradient.elements())
            .expected(linear.out_gradient.extent(1));
    }
    auto const made = Backend::template gemm<float>(linear.out_gradient, linear.weight, in_gradient,
                                                    {.accumulates = is_added}, stream);
    if (!made) return made;
    auto const weighted = Backend::template gemm<float>(linear.out_gradient, linear.in, linear.weight_gradient,
                                                        {.is_a_transposed = true, .accumulates = true}, stream);
    if (!weighted) return weighted;
    if (!linear.bias_gradient.empty()) detail::add_columns<Backend>(linear.out_gradient, linear.bias_gradient, stream);
    return {};
}

/// Sums the input's gradient over the ranks: once for all column-parallel layers that read one input (q, k and v; gate and up),
/// after each rank has added up its own.
///
/// Shapes  in_gradient [tokens, inputs] dense
/// Order   on `stream`, the collective too
/// Errors  shape_mismatch; a collective's error stops the stream
/// Source  the function f of Shoeybi et al., Megatron-LM (arXiv 1909.08053), section 3
template <ComputeBackend Backend, Communicator C>
[[nodiscard]] Result<> sum_gradient(TensorView<float, 2, Backend> in_gradient, C& comm,
                                    typename Backend::Stream& stream) {
    if (auto const known = check_views("sum_gradient", in_gradient); !known) return known;
    if (!in_gradient.is_dense()) {
        return Error{ErrorCode::shape_mismatch}
            .in("sum_gradient")
            .because("the gradient's rows lie apart")
            .got(in_gradient.stride(0))
            .expected(in_gradient.extent(1));
    }
    submit_all_reduce(comm, TensorView<float, 1, Backend>{in_gradient.data(), {in_gradient.elements()}}, ReduceOp::sum,
                      stream);
    return {};
}

/// The same where sequence parallelism shards the tokens: each rank gets the sum for its own.
///
/// Shapes  in_gradient [tokens, inputs] dense, own [split_units(tokens, ranks, rank), inputs] dense
/// Order   on `stream`, the collective too
/// Errors  shape_mismatch; a collective's error stops the stream
template <ComputeBackend Backend, Communicator C>
[[nodiscard]] Result<> scatter_gradient(TensorView<float const, 2, Backend> in_gradient,
                                        TensorView<float, 2, Backend> own, C& comm, typename Backend::Stream& stream) {
    if (auto const known = check_views("scatter_gradient", in_gradient, own); !known) return known;
    auto const tokens = in_gradient.extent(0);
    auto const width = in_gradient.extent(1);
    auto const share = split_units(tokens, comm.size(), comm.rank()).size();
    if (own.extent(0) != share || own.extent(1) != width || !own.is_dense() || !in_gradient.is_dense()) {
        return Error{ErrorCode::shape_mismatch}
            .in("scatter_gradient")
            .because("the output is not this rank's share of the tokens, or rows have gaps")
            .got(own.extent(0))
            .expected(share);
    }
    submit_reduce_scatter(
        comm, TensorView<float const, 1, Backend>{in_gradient.data(), {in_gradient.elements()}},
        TensorView<float, 1, Backend>{own.data(), {own.elements()}},
        [ranks = comm.size(), tokens, width](std::int32_t rank) {
            return split_units(tokens, ranks, rank).size() * width;
        },
        stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
