// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/kernels/store_step.hpp>
#include <shardwise/parallel/attend_heads.hpp>
#include <shardwise/parallel/tensor_parallel.hpp>

#include "bounded.hpp"
#include "mlp_rank.hpp"

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

/// A llama block: its random weights, its float64 computation, and its computation over ranks.
namespace shardwise::testing {

struct LlamaBlock {
    std::int64_t heads = 9;
    std::int64_t kv_heads = 3;
    std::int64_t head_dim = 4;
    std::int64_t ffn = 172;
    std::int64_t hidden = 36;
    Floats norm1 = random_floats(hidden, 100);
    Floats norm2 = random_floats(hidden, 101);
    Floats qkv = random_floats((heads + 2 * kv_heads) * head_dim * hidden, 102, 0.2F);
    Floats output = random_floats(hidden * heads * head_dim, 103, 0.2F);
    Floats gate_up = random_floats(2 * ffn * hidden, 104, 0.2F);
    Floats down = random_floats(hidden * ffn, 105, 0.1F);
    Floats frequencies = make_frequencies();
    static constexpr float epsilon = 1e-5F;

    [[nodiscard]] WeightSource qkv_source() const { return f32_source(qkv, (heads + 2 * kv_heads) * head_dim, hidden); }
    [[nodiscard]] WeightSource output_source() const { return f32_source(output, hidden, heads * head_dim); }
    [[nodiscard]] WeightSource gate_up_source() const { return f32_source(gate_up, 2 * ffn, hidden); }
    [[nodiscard]] WeightSource down_source() const { return f32_source(down, hidden, ffn); }
    [[nodiscard]] AttentionOptions attention() const {
        AttentionOptions options;
        options.shape = {.heads = heads, .kv_heads = kv_heads, .key_dim = head_dim, .value_dim = head_dim};
        return options;
    }

    /// All tokens at once in float64.
    [[nodiscard]] Bounds exact(Floats const& in) const {
        auto const residual = bounded(in);
        auto made = bounded_linear(bounded_rms_norm(residual, norm1, static_cast<double>(epsilon)), qkv, hidden);
        auto const width = (heads + 2 * kv_heads) * head_dim;
        bounded_rope(made, width, 0, heads + kv_heads, head_dim, 0, frequencies);
        auto const attended = bounded_attention(made, heads, kv_heads, head_dim);
        auto const middle = bounded_add(bounded_linear(attended, output, heads * head_dim), residual);
        auto const both =
            bounded_linear(bounded_rms_norm(middle, norm2, static_cast<double>(epsilon)), gate_up, hidden);
        Bounds gated;
        for (std::size_t row = 0; row < both.size() / index(2 * ffn); ++row) {
            for (std::size_t i = 0; i < index(ffn); ++i) {
                auto const* const values = both.data() + row * index(2 * ffn);
                gated.push_back(bounded_silu(values[i]) * values[index(ffn) + i]);
            }
        }
        return bounded_add(bounded_linear(gated, down, ffn), middle);
    }

private:
    [[nodiscard]] Floats make_frequencies() const {
        Floats out;
        for (std::int64_t i = 0; i < head_dim / 2; ++i)
            out.push_back(std::pow(10000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(head_dim)));
        return out;
    }
};

/// One rank's attention: its query heads, the key-value heads that they read, and their page of a cache.
template <class Policy>
class BlockAttention {
public:
    [[nodiscard]] static Result<BlockAttention> create(LlamaBlock const& block, HostContext& context,
                                                       TensorPlace place) {
        TensorParallel<Host, Policy> const group(context, place);
        auto const pieces = group.attention_pieces(block.heads, block.head_dim, block.output_source());
        auto const share = group.heads(block.heads, block.kv_heads, pieces);
        if (!share) return share.error();
        auto qkv =
            group.packed_qkv(block.qkv_source(), {block.heads, block.kv_heads, block.head_dim, block.head_dim}, pieces);
        if (!qkv) return qkv.error();
        auto output = group.row_linear(block.output_source(), pieces);
        if (!output) return output.error();
        auto table = StepTable<Host>::create(context, {.tokens = capacity, .groups = 1, .pages = 1});
        if (!table) return table.error();
        return Result<BlockAttention>(
            BlockAttention(block, *share, std::move(*qkv), std::move(*output), std::move(*table)));
    }

    [[nodiscard]] RowLinear<Host, Policy> const& output() const { return output_; }
    [[nodiscard]] Bytes bytes() const { return qkv_.bytes() + output_.bytes(); }

    /// What the rank's heads make of tokens that follow `past` others; the stream has done what it was given before.
    Result<Floats> attend(TensorView<float const, 2, Host> in, std::int64_t past, HostStream& stream) {
        auto const tokens = in.extent(0);
        auto const dim = block_->head_dim;
        std::vector<std::int32_t> const ids(index(tokens), 0);
        static constexpr std::int32_t page[] = {0};
        std::span<std::int32_t const> const pages[] = {page};
        StepSequence const sequence{past, tokens, pages};
        if (auto const done = table_.write({ids, {&sequence, 1}}, stream); !done) return done.error();
        Floats made(index(tokens * qkv_.outputs()));
        Floats heads(index(tokens * output_.inputs()));
        Floats workspace(index(attend_heads_workspace<Host>(options(), share_, tokens, 1, capacity)));
        auto const all = matrix(made, tokens, qkv_.outputs());
        if (auto const done = qkv_.forward(in, all, stream); !done) return done.error();
        auto const turning = all.columns(0, (share_.query.size() + share_.kv.size()) * dim);
        auto const turned = rope<float>(turning, table_.positions(), vector(std::as_const(block_->frequencies)), dim,
                                        RopeLayout::half, stream);
        if (!turned) return turned.error();
        auto const width = share_.kv.size() * dim;
        auto const first = share_.query.size() * dim;
        for (auto* const side : {&keys_, &values_}) {
            TensorView<float const, 2, Host> const from = all.columns(side == &keys_ ? first : first + width, width);
            auto const stored = store_rows<float>(from, matrix(*side, capacity, width), table_, 0, stream);
            if (!stored) return stored.error();
        }
        StepRows<float, Host> const keys{matrix(std::as_const(keys_), capacity, width), {}, 0};
        StepRows<float, Host> const values{matrix(std::as_const(values_), capacity, width), {}, 0};
        auto const done =
            attend_heads<Host, float>(all.columns(0, first), keys, values, matrix(heads, tokens, output_.inputs()),
                                      table_, options(), share_, stream, vector(workspace));
        if (!done) return done.error();
        if (auto const finished = finish(stream); !finished) return finished.error();
        return heads;
    }

private:
    static constexpr std::int64_t capacity = 16;

    BlockAttention(LlamaBlock const& block, HeadShare const& share, ColumnLinear<Host>&& qkv,
                   RowLinear<Host, Policy>&& output, StepTable<Host>&& table)
        : block_(&block),
          share_(share),
          qkv_(std::move(qkv)),
          output_(std::move(output)),
          table_(std::move(table)),
          keys_(index(capacity * share.kv.size() * block.head_dim)),
          values_(keys_.size()) {}

    [[nodiscard]] AttentionOptions options() const { return block_->attention(); }

    LlamaBlock const* block_;
    HeadShare share_;
    ColumnLinear<Host> qkv_;
    RowLinear<Host, Policy> output_;
    StepTable<Host> table_;
    Floats keys_;
    Floats values_;
};

/// One rank of a block, with its part of a cache.
template <class Policy>
class BlockRank {
public:
    [[nodiscard]] static Result<BlockRank> create(LlamaBlock const& block, HostContext& context, TensorPlace place) {
        auto attention = BlockAttention<Policy>::create(block, context, place);
        if (!attention) return attention.error();
        TensorParallel<Host, Policy> const group(context, place);
        auto mlp = MlpRank<Host, Policy>::create(group, block.gate_up_source(), block.down_source());
        if (!mlp) return mlp.error();
        return Result<BlockRank>(BlockRank(block, std::move(*attention), std::move(*mlp)));
    }

    /// Computes tokens [past, past + tokens) of `in`, whose rows all ranks have.
    template <Communicator C>
    Result<Floats> forward(Floats const& in, std::int64_t past, std::int64_t tokens, C& comm, HostStream& stream) {
        auto const width = block_->hidden;
        auto residual = Floats(in.begin() + past * width, in.begin() + (past + tokens) * width);
        Floats normed(residual.size());
        Floats out(residual.size());
        auto const& output = attention_.output();
        Floats workspace(index(std::max(output.workspace(tokens), mlp_.workspace(tokens))));
        if (auto const done = norm(residual, block_->norm1, normed, stream); !done) return done.error();
        auto const heads = attention_.attend(as_const(normed), past, stream);
        if (!heads) return heads;
        if (auto const done = output.forward(matrix(*heads, tokens, output.inputs()), as_matrix(out), vector(workspace),
                                             comm, stream);
            !done)
            return done.error();
        detail::add<Host>(vector(residual), out.data(), stream);
        if (auto const done = norm(residual, block_->norm2, normed, stream); !done) return done.error();
        if (auto const done = mlp_.forward(as_const(normed), as_matrix(out), vector(workspace), comm, stream); !done)
            return done.error();
        detail::add<Host>(vector(residual), out.data(), stream);
        if (auto const done = finish(stream); !done) return done.error();
        return residual;
    }

    /// The same where each rank keeps its own tokens' rows between the layers; all rows come back.
    template <Communicator C>
    Result<Floats> forward_sequence_parallel(Floats const& in, C& comm, HostStream& stream) {
        auto const width = block_->hidden;
        auto const tokens = static_cast<std::int64_t>(in.size()) / width;
        auto const own = split_units(tokens, comm.size(), comm.rank());
        auto residual = Floats(in.begin() + own.begin * width, in.begin() + own.end * width);
        Floats normed(residual.size());
        Floats out(residual.size());
        Floats all(in.size());
        auto const& output = attention_.output();
        Floats workspace(index(std::max(output.workspace_scattered(tokens), mlp_.workspace_scattered(tokens))));
        if (auto const done = norm(residual, block_->norm1, normed, stream); !done) return done.error();
        if (auto const done = gather_tokens<Host>(comm, as_const(normed), as_matrix(all), stream); !done)
            return done.error();
        auto const heads = attention_.attend(as_const(all), 0, stream);
        if (!heads) return heads;
        if (auto const done = output.forward_scattered(matrix(*heads, tokens, output.inputs()), as_matrix(out),
                                                       vector(workspace), comm, stream);
            !done)
            return done.error();
        detail::add<Host>(vector(residual), out.data(), stream);
        if (auto const done = norm(residual, block_->norm2, normed, stream); !done) return done.error();
        if (auto const done = gather_tokens<Host>(comm, as_const(normed), as_matrix(all), stream); !done)
            return done.error();
        if (auto const done = mlp_.forward_scattered(as_const(all), as_matrix(out), vector(workspace), comm, stream);
            !done)
            return done.error();
        detail::add<Host>(vector(residual), out.data(), stream);
        if (auto const done = finish(stream); !done) return done.error();
        return residual;
    }

    [[nodiscard]] Bytes bytes() const { return attention_.bytes() + mlp_.bytes(); }

private:
    BlockRank(LlamaBlock const& block, BlockAttention<Policy>&& attention, MlpRank<Host, Policy>&& mlp)
        : block_(&block), attention_(std::move(attention)), mlp_(std::move(mlp)) {}

    TensorView<float, 2, Host> as_matrix(Floats& values) const {
        return matrix(values, static_cast<std::int64_t>(values.size()) / block_->hidden, block_->hidden);
    }
    TensorView<float const, 2, Host> as_const(Floats const& values) const {
        return matrix(values, static_cast<std::int64_t>(values.size()) / block_->hidden, block_->hidden);
    }
    Result<> norm(Floats const& in, Floats const& weight, Floats& out, HostStream& stream) const {
        return rms_norm(as_const(in), vector(weight), as_matrix(out), LlamaBlock::epsilon, stream);
    }

    LlamaBlock const* block_;
    BlockAttention<Policy> attention_;
    MlpRank<Host, Policy> mlp_;
};

}  // namespace shardwise::testing
