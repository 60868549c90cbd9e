// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/copy_rows.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/op/head_share.hpp>
#include <shardwise/parallel/attend_heads.hpp>
#include <shardwise/parallel/column_linear.hpp>
#include <shardwise/parallel/row_linear.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Rotary positions of an attention; without frequencies nothing turns.
template <class Backend>
struct RotaryPositions {
    TensorView<std::int32_t const, 1, Backend> positions{};
    TensorView<float const, 1, Backend> frequencies{};
    RopeLayout layout = RopeLayout::half;
    float scale = 1.0F;
};

/// The keys and values of one sequence that a rank keeps: of its own key-value heads.
///
/// Shapes  keys [capacity, own kv heads * key_dim], values [capacity, own kv heads * value_dim]
template <class Backend>
struct KeyValueCache {
    TensorView<float, 2, Backend> keys;
    TensorView<float, 2, Backend> values;
    /// Tokens that it holds before the call.
    std::int64_t past = 0;
};

/// Self-attention over the ranks: each has its query heads, the key-value heads that they read and their part of the cache; the
/// sum after the output projection is the only communication.
template <ComputeBackend Backend, ReductionPolicy Policy>
class ParallelAttention {
public:
    using Stream = typename Backend::Stream;

    /// `qkv` makes the rank's queries, keys and values one after another (TensorParallel::packed_qkv), `output` takes its heads'
    /// results. `options` are those of the whole model.
    ///
    /// Errors  shape_mismatch where layers and heads do not fit together
    [[nodiscard]] static Result<ParallelAttention> create(ColumnLinear<Backend> qkv, RowLinear<Backend, Policy> output,
                                                          AttentionOptions const& options, HeadShare const& share) {
        auto const& shape = options.shape;
        auto const made = share.query.size() * shape.key_dim + share.kv.size() * (shape.key_dim + shape.value_dim);
        Error error{ErrorCode::shape_mismatch};
        error.in("parallel_attention");
        if (qkv.outputs() != made)
            return error.because("the first layer does not make this rank's heads").got(qkv.outputs()).expected(made);
        if (output.inputs() != share.query.size() * shape.value_dim)
            return error.because("the second layer does not take this rank's heads")
                .got(output.inputs())
                .expected(share.query.size() * shape.value_dim);
        return Result<ParallelAttention>(ParallelAttention(std::move(qkv), std::move(output), options, share));
    }

    /// Floats that `forward` needs beside its tensors, over a context of `context` tokens, the new ones included.
    [[nodiscard]] std::int64_t workspace(std::int64_t tokens, std::int64_t context) const {
        return own_values(tokens) + scores(tokens, context) + output_.workspace(tokens);
    }
    [[nodiscard]] std::int64_t workspace_scattered(std::int64_t tokens, std::int64_t context) const {
        return own_values(tokens) + scores(tokens, context) + output_.workspace_scattered(tokens);
    }

    /// Attends to the cache and the new tokens, whose keys and values it puts there.
    ///
    /// Shapes  in [tokens, width], out [tokens, width] dense; workspace [workspace(tokens, past + tokens)] or more
    /// Memory  allocates nothing; nothing overlaps
    /// Order   on `stream`, the collective too
    /// Errors  shape_mismatch; a collective's error stops the stream
    template <Communicator C>
    [[nodiscard]] Result<> forward(TensorView<float const, 2, Backend> in, RotaryPositions<Backend> const& rotary,
                                   KeyValueCache<Backend> const& cache, TensorView<float, 2, Backend> out,
                                   TensorView<float, 1, Backend> workspace, C& comm, Stream& stream) const {
        if (auto const known = check_views("parallel_attention", in, rotary.positions, rotary.frequencies, cache.keys,
                                           cache.values, out, workspace);
            !known)
            return known;
        auto const tokens = in.extent(0);
        auto const needed = this->workspace(tokens, cache.past + tokens);
        auto const heads = attend(in, rotary, cache, workspace, needed, stream);
        if (!heads) return heads.error();
        return output_.forward(*heads, out, after(workspace, tokens, cache.past + tokens), comm, stream);
    }
    /// The same, of which each rank gets its tokens' rows: out [split_units(tokens, ranks, rank), width].
    template <Communicator C>
    [[nodiscard]] Result<> forward_scattered(TensorView<float const, 2, Backend> in,
                                             RotaryPositions<Backend> const& rotary,
                                             KeyValueCache<Backend> const& cache, TensorView<float, 2, Backend> out,
                                             TensorView<float, 1, Backend> workspace, C& comm, Stream& stream) const {
        if (auto const known = check_views("parallel_attention", in, rotary.positions, rotary.frequencies, cache.keys,
                                           cache.values, out, workspace);
            !known)
            return known;
        auto const tokens = in.extent(0);
        auto const needed = workspace_scattered(tokens, cache.past + tokens);
        auto const heads = attend(in, rotary, cache, workspace, needed, stream);
        if (!heads) return heads.error();
        return output_.forward_scattered(*heads, out, after(workspace, tokens, cache.past + tokens), comm, stream);
    }

    [[nodiscard]] HeadShare const& share() const { return share_; }
    [[nodiscard]] Bytes bytes() const { return qkv_.bytes() + output_.bytes(); }

private:
    ParallelAttention(ColumnLinear<Backend>&& qkv, RowLinear<Backend, Policy>&& output, AttentionOptions const& options,
                      HeadShare const& share)
        : qkv_(std::move(qkv)), output_(std::move(output)), options_(options), share_(share) {}

    [[nodiscard]] std::int64_t own_values(std::int64_t tokens) const {
        return tokens * (qkv_.outputs() + output_.inputs());
    }
    [[nodiscard]] std::int64_t scores(std::int64_t tokens, std::int64_t context) const {
        return attend_heads_workspace(options_, share_, tokens, context);
    }
    [[nodiscard]] TensorView<float, 1, Backend> after(TensorView<float, 1, Backend> workspace, std::int64_t tokens,
                                                      std::int64_t context) const {
        auto const taken = own_values(tokens) + scores(tokens, context);
        return workspace.part(taken, workspace.elements() - taken);
    }

    /// The results of the rank's heads, in the workspace.
    [[nodiscard]] Result<TensorView<float const, 2, Backend>> attend(TensorView<float const, 2, Backend> in,
                                                                     RotaryPositions<Backend> const& rotary,
                                                                     KeyValueCache<Backend> const& cache,
                                                                     TensorView<float, 1, Backend> workspace,
                                                                     std::int64_t needed, Stream& stream) const {
        auto const tokens = in.extent(0);
        auto const& shape = options_.shape;
        auto const q_width = share_.query.size() * shape.key_dim;
        auto const k_width = share_.kv.size() * shape.key_dim;
        auto const v_width = share_.kv.size() * shape.value_dim;
        Error error{ErrorCode::shape_mismatch};
        error.in("parallel_attention");
        if (workspace.elements() < needed)
            return error.because("the workspace is too small").got(workspace.elements()).at_least(needed);
        if (cache.keys.extent(1) != k_width || cache.values.extent(1) != v_width)
            return error.because("the cache is not as wide as this rank's key-value heads")
                .got(cache.keys.extent(1))
                .expected(k_width);
        auto const context = cache.past + tokens;
        auto const room = std::min(cache.keys.extent(0), cache.values.extent(0));
        if (cache.past < 0 || room < context)
            return error.because("the cache has no room for the new tokens")
                .got(cache.past < 0 ? cache.past : room)
                .at_least(cache.past < 0 ? 0 : context);
        TensorView<float, 2, Backend> const made{workspace.data(), {tokens, qkv_.outputs()}};
        TensorView<float, 2, Backend> const heads{made.data() + made.elements(), {tokens, output_.inputs()}};
        if (share_.query.size() == 0) return TensorView<float const, 2, Backend>(heads);
        if (auto const done = qkv_.forward(in, made, stream); !done) return done.error();
        auto const q = made.columns(0, q_width);
        auto const k = made.columns(q_width, k_width);
        for (auto const& turned : {q, k}) {
            if (rotary.frequencies.empty()) break;
            auto const done =
                rope(turned, rotary.positions, rotary.frequencies, shape.key_dim, rotary.layout, stream, rotary.scale);
            if (!done) return done.error();
        }
        using ConstRows = TensorView<float const, 2, Backend>;
        auto const kept = copy_rows<float>(ConstRows(k), cache.keys.rows(cache.past, tokens), stream);
        if (!kept) return kept.error();
        auto const v = ConstRows(made.columns(q_width + k_width, v_width));
        if (auto const stored = copy_rows<float>(v, cache.values.rows(cache.past, tokens), stream); !stored)
            return stored.error();
        auto options = options_;
        options.first_query = cache.past;
        TensorView<float, 1, Backend> const parts{heads.data() + heads.elements(), {scores(tokens, context)}};
        auto const done = attend_heads(
            TensorView<float const, 2, Backend>(q), TensorView<float const, 2, Backend>(cache.keys.rows(0, context)),
            TensorView<float const, 2, Backend>(cache.values.rows(0, context)), heads, options, share_, stream, parts);
        if (!done) return done.error();
        return TensorView<float const, 2, Backend>(heads);
    }

    ColumnLinear<Backend> qkv_;
    RowLinear<Backend, Policy> output_;
    AttentionOptions options_;
    HeadShare share_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
