// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/block_values.hpp>
#include <shardwise/executor/walk_experts.hpp>
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/op/rope_frequencies.hpp>
#include <shardwise/parallel/attend_heads.hpp>
#include <shardwise/parallel/detail/element_wise.hpp>
#include <shardwise/parallel/sharded_norm.hpp>
#include <shardwise/parallel/vocab_head.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Walks over the operations of one block.
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C>
class BlockWalker {
public:
    using Stream = typename Backend::Stream;
    using Matrix = TensorView<float, 2, Backend>;

    BlockWalker(Model const& model, HeldBlock<Backend, Policy> const& block, ActivationPlan const& plan,
                StepView<Backend> const& step, WalkState<Backend>& state, C& comm, ExpertParallel<Backend, C>* exchange,
                Stream& stream)
        : model_(model),
          block_(block),
          step_(step),
          state_(state),
          comm_(comm),
          stream_(stream),
          values_(block, plan, step, state),
          experts_(model, block, step, values_, comm, exchange, stream) {}

    [[nodiscard]] Result<> walk() {
        auto const& operations = block_.program->operations();
        bool const reads_ids = !operations.empty() && operations.front().kind == OpKind::embedding &&
                               operations.front().inputs[0] == 0 && block_.program->values()[0].width == 1;
        if (!reads_ids) {
            // The block before left its result at the place of its own output.
            auto const in = view(0);
            if (state_.hidden != in.data()) {
                stream_.submit([from = state_.hidden, in] {
                    std::memmove(in.data(), from, static_cast<std::size_t>(in.elements()) * sizeof(float));
                    return Result<>{};
                });
            }
        }
        for (std::size_t i = 0; i < operations.size(); ++i) {
            if (auto const done = compute(operations[i], i); !done) return done;
        }
        if (!operations.empty()) state_.hidden = view(operations.back().output).data();
        return {};
    }

private:
    [[nodiscard]] Matrix view(ValueId id) const { return values_.view(id); }
    [[nodiscard]] TensorView<float const, 1, Backend> vector(Buffer<float, Backend> const& buffer) const {
        return buffer.view();
    }

    [[nodiscard]] Result<> compute(Operation const& op, std::size_t index) {
        auto const& held = block_.operations[index];
        if (experts_.computes_later(op)) return {};
        switch (op.kind) {
            case OpKind::embedding:
                return embed(op, std::get<HeldTable<Backend>>(held));
            case OpKind::norm:
                return normalise(op, std::get<HeldNorm<Backend>>(held), block_.cut.norms[index]);
            case OpKind::linear:
                return multiply(op, held);
            case OpKind::rope:
                return rotate(op);
            case OpKind::attention:
                return attend(op, held);
            case OpKind::activation:
                return walk_activation(values_, op, stream_);
            case OpKind::add:
                return add(op);
            case OpKind::last_token:
                return take_rows(op);
            case OpKind::route:
            case OpKind::experts:
            case OpKind::combine:
                return experts_.compute(op, index);
        }
        return not_executed("an operation");
    }

    [[nodiscard]] Result<> embed(Operation const& op, HeldTable<Backend> const& table) {
        auto const out = view(op.output);
        auto const numbers = op.index == TableIndex::position ? step_.positions : step_.ids;
        bool const is_type = op.index == TableIndex::token_type;
        auto const scale = op.index == TableIndex::token ? static_cast<float>(model_.config.embedding_scale) : 1.0F;
        auto const look_up = [out, numbers, is_type, scale, &table, first = op.first_row](std::int64_t begin,
                                                                                          std::int64_t end) {
            for (auto row = begin; row < end; ++row) {
                auto const id = (is_type ? 0 : numbers.data()[row]) + first;
                auto* const to = out.row(row);
                if (id < table.rows.begin || id >= table.rows.end) {
                    std::memset(to, 0, static_cast<std::size_t>(out.extent(1)) * sizeof(float));
                    continue;
                }
                decode_source(table.source, id - table.rows.begin, 0, out.extent(1), to);
                // Also makes +0 of -0, as the sum over ranks does.
                for (std::int64_t i = 0; i < out.extent(1); ++i) to[i] = to[i] * scale + 0.0F;
            }
        };
        Backend::launch(out.extent(0), look_up, stream_);
        bool const is_dealt = table.rows.size() != op.in_features;
        if (is_dealt) {
            submit_all_reduce(comm_, TensorView<float, 1, Backend>{out.data(), {out.elements()}}, ReduceOp::sum,
                              stream_);
        }
        return {};
    }

    [[nodiscard]] Result<> normalise(Operation const& op, HeldNorm<Backend> const& norm,
                                     std::optional<NormShare> const& share) {
        auto in = view(op.inputs[0]);
        auto out = view(op.output);
        auto const epsilon = static_cast<float>(op.epsilon > 0.0 ? op.epsilon : model_.config.norm_epsilon);
        auto const offset = op.norm == NormKind::rms_offset ? 1.0F : 0.0F;
        if (share) {
            return sharded_rms_norm(in, *share, vector(norm.weight), out, epsilon, step_.scratch, comm_, stream_,
                                    offset);
        }
        if (op.is_first_part) {
            in = in.columns(0, op.in_features);
            out = out.columns(0, op.in_features);
        } else if (in.extent(1) != op.in_features) {
            // A norm of each head: heads are rows.
            if (op.in_features < 1 || in.extent(1) % op.in_features != 0) {
                return Error{ErrorCode::shape_mismatch}
                    .in("norm")
                    .at(op.parameters[0])
                    .because("a rank's columns are not whole heads of it")
                    .got(in.extent(1))
                    .expected(op.in_features);
            }
            auto const heads = in.extent(1) / op.in_features;
            in = Matrix(in.data(), {in.extent(0) * heads, op.in_features});
            out = Matrix(out.data(), {out.extent(0) * heads, op.in_features});
        }
        if (op.norm == NormKind::layer) {
            return layer_norm<float>(in, vector(norm.weight), vector(norm.bias), out, epsilon, stream_);
        }
        return rms_norm<float>(in, vector(norm.weight), out, epsilon, stream_, offset);
    }

    [[nodiscard]] Result<> multiply(Operation const& op, HeldOperation<Backend, Policy> const& held) {
        // Its keys and values are never made.
        if (std::holds_alternative<LatentHeads<Backend>>(held)) return {};
        auto const in = view(op.inputs[0]);
        auto const out = view(op.output);
        if (auto const* const row = std::get_if<RowLinear<Backend, Policy>>(&held))
            return row->forward(in, out, step_.scratch, comm_, stream_);
        auto const& column = std::get<ColumnLinear<Backend>>(held);
        if (auto const done = column.forward(in, out, stream_); !done) return done;
        auto const& made = block_.program->values()[static_cast<std::size_t>(op.output)];
        if (made.is_fp32 && made.width == state_.logits.extent(1)) return gather(out);
        return {};
    }
    /// Logits, with their cap, put together on every rank.
    [[nodiscard]] Result<> gather(Matrix out) {
        if (auto const cap = static_cast<float>(model_.config.logit_softcap); cap > 0.0F) {
            auto const bend = [out, cap](std::int64_t begin, std::int64_t end) {
                for (auto i = begin; i < end; ++i) out.data()[i] = cap * std::tanh(out.data()[i] / cap);
            };
            Backend::launch(out.elements(), bend, stream_, 4096);
        }
        return gather_logits<Backend>(out, state_.logits, step_.scratch, comm_, stream_);
    }

    [[nodiscard]] Result<> rotate(Operation const& op) {
        auto values = view(op.output);
        // Of queries, keys and values in one value, the first two turn.
        auto const turning = (block_.cut.heads->query.size() + block_.cut.heads->kv.size()) * op.attention.key_dim;
        bool const is_fused = block_.program->values()[static_cast<std::size_t>(op.output)].width ==
                              (op.attention.heads + op.attention.kv_heads) * op.attention.key_dim +
                                  op.attention.kv_heads * op.attention.value_dim;
        if (is_fused) values = values.columns(0, turning);
        auto const layout = model_.config.interleaved_rope ? RopeLayout::interleaved : RopeLayout::half;
        auto const first = op.attention.rotary > 0 ? op.attention.key_dim - op.attention.rotary : 0;
        return rope<float>(values, step_.positions, vector(block_.frequencies), op.attention.key_dim, layout, stream_,
                           block_.rope_scale, first);
    }

    /// What multiplies an attention's scores; 0: 1 / sqrt(key_dim).
    [[nodiscard]] float score_scale(AttentionShape const& shape) const {
        auto const& config = model_.config;
        if (config.yarn_scores && config.rope.mscale_all_dim != 0.0) {
            auto const growth = yarn_magnitude(config.rope.factor, config.rope.mscale_all_dim);
            return static_cast<float>(growth * growth / std::sqrt(static_cast<double>(shape.key_dim)));
        }
        auto const squared = config.query_scale > 0.0 ? config.query_scale : static_cast<double>(shape.key_dim);
        if (config.layer_scores)
            return static_cast<float>(1.0 / std::sqrt(squared) / static_cast<double>(block_.number + 1));
        return config.query_scale > 0.0 ? static_cast<float>(1.0 / std::sqrt(squared)) : 0.0F;
    }

    [[nodiscard]] Result<> attend_latent(Operation const& op) {
        auto const& operations = block_.program->operations();
        std::size_t expands = 0;
        while (operations[expands].output != op.inputs[2]) ++expands;
        auto const& heads = std::get<LatentHeads<Backend>>(block_.operations[expands]);
        auto const q = view(op.inputs[0]);
        auto const latents = view(op.inputs[1]);
        auto const out = view(op.output);
        // In the latent keys are wider, but the scores are those of the heads.
        auto const given = score_scale(op.attention);
        auto const plain = static_cast<float>(1.0 / std::sqrt(static_cast<double>(op.attention.key_dim)));
        auto& cache = *step_.cache;
        std::int64_t first = 0;
        for (auto const& part : step_.parts) {
            auto const stored =
                cache.store(block_.cache_layer, part.slot, part.past, latents.rows(first, part.tokens), {}, stream_);
            if (!stored) return stored;
            auto const attend_to_cache = [&]<class Cache>(Cache) {
                return heads.template attend<Cache>(
                    q.rows(first, part.tokens),
                    cache.template keys<Cache>(block_.cache_layer, part.slot, part.past + part.tokens),
                    out.rows(first, part.tokens), part.past, given > 0.0F ? given : plain, step_.scratch, stream_);
            };
            if (auto const done = cache.with_element(attend_to_cache); !done) return done;
            first += part.tokens;
        }
        return {};
    }

    [[nodiscard]] Result<> attend(Operation const& op, HeldOperation<Backend, Policy> const& held) {
        if (op.attention.latent > 0) return attend_latent(op);
        // Of each head: a score without a value, or how its scores fall with distance.
        auto const* const numbers = std::get_if<HeldVector<Backend>>(&held);
        TensorView<float const, 1, Backend> const none;
        auto const per_head = numbers != nullptr ? vector(numbers->values) : none;
        auto const sinks = model_.config.alibi ? none : per_head;
        auto const slopes = model_.config.alibi ? per_head : none;
        auto const& share = *block_.cut.heads;
        auto const& shape = op.attention;
        auto q = view(op.inputs[0]);
        auto k = view(op.inputs[1]);
        auto v = view(op.inputs[2]);
        if (op.inputs[0] == op.inputs[1]) {
            auto const q_width = share.query.size() * shape.key_dim;
            auto const k_width = share.kv.size() * shape.key_dim;
            auto const all = q;
            q = all.columns(0, q_width);
            k = all.columns(q_width, k_width);
            v = all.columns(q_width + k_width, share.kv.size() * shape.value_dim);
        }
        AttentionOptions options;
        options.shape = shape;
        options.soft_cap = static_cast<float>(model_.config.attention_softcap);
        options.scale = score_scale(shape);
        auto const out = view(op.output);
        auto& cache = *step_.cache;
        auto const layer = block_.cache_layer;
        std::int64_t first = 0;
        for (auto const& part : step_.parts) {
            options.first_query = part.past;
            auto const known = part.past + part.tokens;
            auto const keys = k.rows(first, part.tokens);
            auto const values = v.rows(first, part.tokens);
            // Without the workspace fewer threads share the work, and the bits are the same.
            bool const has_workspace =
                step_.scratch.elements() >= attend_heads_workspace(options, share, part.tokens, known);
            auto const attend_to = [&]<class Cache>(CachedRows<Cache, Backend> const& seen_keys,
                                                    CachedRows<Cache, Backend> const& seen_values) {
                return attend_heads<Backend, Cache>(
                    q.rows(first, part.tokens), seen_keys, seen_values, out.rows(first, part.tokens), options, share,
                    stream_, has_workspace ? step_.scratch : TensorView<float, 1, Backend>{}, sinks, slopes);
            };
            auto const attend_to_cache = [&]<class Cache>(Cache) {
                return attend_to(cache.template keys<Cache>(layer, part.slot, known),
                                 cache.template values<Cache>(layer, part.slot, known));
            };
            Result<> done;
            if (shape.is_causal) {
                done = cache.store(layer, part.slot, part.past, keys, values, stream_);
                if (done) done = cache.with_element(attend_to_cache);
            } else {
                // An encoder sees its whole sequence in one step and keeps nothing.
                done = attend_to(CachedRows<float, Backend>(keys), CachedRows<float, Backend>(values));
            }
            if (!done) return done;
            first += part.tokens;
        }
        return {};
    }

    [[nodiscard]] Result<> add(Operation const& op) {
        auto const a = view(op.inputs[0]);
        auto const b = view(op.inputs[1]);
        auto const out = view(op.output);
        auto const sum = [a, b, out](std::int64_t begin, std::int64_t end) {
            for (auto i = begin; i < end; ++i) out.data()[i] = a.data()[i] + b.data()[i];
        };
        Backend::launch(out.elements(), sum, stream_, 4096);
        return {};
    }

    [[nodiscard]] Result<> take_rows(Operation const& op) {
        auto const in = view(op.inputs[0]);
        auto const out = view(op.output);
        std::int64_t first = 0;
        std::int64_t row = 0;
        for (auto const& part : step_.parts) {
            auto const at = op.takes_first ? first : first + part.tokens - 1;
            stream_.submit([from = in.row(at), to = out.row(row), width = in.extent(1)] {
                std::memmove(to, from, static_cast<std::size_t>(width) * sizeof(float));
                return Result<>{};
            });
            first += part.tokens;
            ++row;
        }
        return {};
    }

    Model const& model_;
    HeldBlock<Backend, Policy> const& block_;
    StepView<Backend> const& step_;
    WalkState<Backend>& state_;
    C& comm_;
    Stream& stream_;
    BlockValues<Backend, Policy> values_;
    ExpertWalker<Backend, Policy, C> experts_;
};

}  // namespace detail

/// Computes one block: its input is where the walk left the hidden state, its output where the walk finds it. `exchange` is null
/// where the rank has all experts.
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C>
[[nodiscard]] Result<> walk_block(Model const& model, HeldBlock<Backend, Policy> const& block,
                                  ActivationPlan const& plan, StepView<Backend> const& step, WalkState<Backend>& state,
                                  C& comm, ExpertParallel<Backend, C>* exchange, typename Backend::Stream& stream) {
    return detail::BlockWalker<Backend, Policy, C>(model, block, plan, step, state, comm, exchange, stream).walk();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
