// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/parallel/tensor_parallel.hpp>

#include "bounded.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>

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

/// One rank of a block, with its part of a cache.
template <class Policy>
class BlockRank {
public:
    [[nodiscard]] static Result<BlockRank> create(LlamaBlock const& block, HostContext& context, TensorPlace place) {
        TensorParallel<Host, Policy> const group(context, place);
        auto attention = group.attention({block.qkv_source(), block.output_source()}, block.attention());
        if (!attention) return attention.error();
        auto mlp = group.mlp({block.gate_up_source(), block.down_source()});
        if (!mlp) return mlp.error();
        return Result<BlockRank>(BlockRank(block, place, std::move(*attention), std::move(*mlp)));
    }

    /// Computes tokens [past, past + tokens) of `in`, whose rows all ranks have.
    template <Communicator C>
    Result<Floats> forward(Floats const& in, std::int64_t past, std::int64_t tokens, C& comm, HostStream& stream) {
        auto const width = block_->hidden;
        auto residual = Floats(in.begin() + past * width, in.begin() + (past + tokens) * width);
        Floats normed(residual.size());
        Floats out(residual.size());
        Floats workspace(index(std::max(attention_.workspace(tokens, past + tokens), mlp_.workspace(tokens))));
        if (auto const done = norm(residual, block_->norm1, normed, stream); !done) return done.error();
        auto const positions = positions_of(past, tokens);
        if (auto const done = attention_.forward(as_const(normed), rotary(positions), cache(past), as_matrix(out),
                                                 vector(workspace), comm, stream);
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
        Floats workspace(
            index(std::max(attention_.workspace_scattered(tokens, tokens), mlp_.workspace_scattered(tokens))));
        auto const positions = positions_of(0, tokens);
        if (auto const done = norm(residual, block_->norm1, normed, stream); !done) return done.error();
        if (auto const done = gather_tokens<Host>(comm, as_const(normed), as_matrix(all), stream); !done)
            return done.error();
        if (auto const done = attention_.forward_scattered(as_const(all), rotary(positions), cache(0), as_matrix(out),
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
    static constexpr std::int64_t capacity = 16;

    BlockRank(LlamaBlock const& block, TensorPlace place, ParallelAttention<Host, Policy>&& attention,
              ParallelMlp<Host, Policy>&& mlp)
        : block_(&block), place_(place), attention_(std::move(attention)), mlp_(std::move(mlp)) {
        auto const width = index(attention_.share().kv.size() * block.head_dim);
        keys_.resize(index(capacity) * width);
        values_.resize(keys_.size());
    }

    TensorView<float, 2, Host> as_matrix(Floats& values) const {
        return matrix(values, static_cast<std::int64_t>(values.size()) / block_->hidden, block_->hidden);
    }
    TensorView<float const, 2, Host> as_const(Floats const& values) const {
        return matrix(values, static_cast<std::int64_t>(values.size()) / block_->hidden, block_->hidden);
    }
    Result<> norm(Floats const& in, Floats const& weight, Floats& out, HostStream& stream) const {
        return rms_norm(as_const(in), vector(weight), as_matrix(out), LlamaBlock::epsilon, stream);
    }
    static std::vector<std::int32_t> positions_of(std::int64_t past, std::int64_t tokens) {
        std::vector<std::int32_t> positions(index(tokens));
        std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(past));
        return positions;
    }
    RotaryPositions<Host> rotary(std::vector<std::int32_t> const& positions) const {
        return {vector(positions), vector(block_->frequencies)};
    }
    KeyValueCache<Host> cache(std::int64_t past) {
        auto const width = attention_.share().kv.size() * block_->head_dim;
        return {matrix(keys_, capacity, width), matrix(values_, capacity, width), past};
    }

    LlamaBlock const* block_;
    TensorPlace place_;
    ParallelAttention<Host, Policy> attention_;
    ParallelMlp<Host, Policy> mlp_;
    Floats keys_;
    Floats values_;
};

}  // namespace shardwise::testing
