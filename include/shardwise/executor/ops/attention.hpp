// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/executor/score_scale.hpp>
#include <shardwise/executor/step_capacity.hpp>
#include <shardwise/kernels/attention_options.hpp>
#include <shardwise/kernels/attention_temperature.hpp>
#include <shardwise/op/alibi_slopes.hpp>
#include <shardwise/op/relative_buckets.hpp>
#include <shardwise/parallel/attend_heads.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Keys and values enter the rank's cache, where there is one, and its heads attend to what is there, in all sequences of a step at
/// once.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<AttentionOp, Backend, Policy> {
    using Held = HeldOperation<Backend, Policy>;
    using Loader = OperationLoader<Backend>;

    [[nodiscard]] static Result<Held> load(Loader const& from, Operation const& op, BlockBody const& body,
                                           BlockCut const& cut) {
        auto const& shape = op.attention();
        HeldAttention<Backend> held;
        held.options.shape = shape;
        held.options.soft_cap = static_cast<float>(shape.soft_cap);
        held.options.scale = score_scale(from.model().config, shape, from.layer());
        held.share = *cut.heads;
        held.is_by_distance = shape.has_slopes || shape.bias_reach > 0;
        held.is_fused = op.inputs[0] == op.inputs[1];
        if (shape.latent > 0) {
            auto const& operations = body.operations();
            while (operations[held.expands].output != op.inputs[2]) ++held.expands;
            // In the latent keys are wider, but the scores are those of the heads.
            auto const plain = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.key_dim)));
            if (!(held.options.scale > 0.0F)) held.options.scale = plain;
        }
        auto per_head = load_per_head(from, op, cut.heads->query);
        if (!per_head) return per_head.error();
        held.per_head = std::move(*per_head);
        return Held{std::move(held)};
    }

    [[nodiscard]] static Result<> count(MemoryTally& to, CountedBlock const& block, Operation const& op,
                                        ParameterFormat) {
        auto const& heads = block.cut.heads;
        if (heads) to.add_vector(op, 0, heads->query.size() * score_numbers(op.attention()));
        if (heads && op.attention().has_slopes) to.add_weights(4 * heads->query.size());
        return to.add_cache(block, op);
    }

    [[nodiscard]] static std::int64_t scratch(CountedBlock const& block, Operation const& op, std::size_t) {
        auto const& limits = block.limits;
        auto const& heads = *block.cut.heads;
        auto const sequences = std::min(limits.sequences, limits.step_tokens);
        if (op.attention().latent > 0)
            return latent_workspace<Backend>(op.attention(), heads.query.size(), limits.step_tokens, sequences,
                                             limits.context, limits.activations);
        AttentionOptions options;
        options.shape = op.attention();
        // A sequence whose chunk needs more than the longest and than one token is split over fewer threads.
        return attend_heads_workspace<Backend>(options, heads, limits.step_tokens, sequences, limits.context);
    }

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const& to) {
        auto const& held = std::get<HeldAttention<Backend>>(op.held);
        auto const& shape = held.options.shape;
        if (shape.latent > 0) {
            auto const fits = LatentHeads<Backend>::check_columns(shape, held.share.query.size(), op.inputs[0].width,
                                                                  op.output.width);
            return fits ? to.cache.check_columns(to.cache_layer, op.inputs[1].width, 0) : fits;
        }
        auto const heads = held.share.kv.size();
        AttentionColumns of{op.inputs[0].width, op.inputs[1].width, op.inputs[2].width, op.output.width};
        if (held.is_fused) {
            of.keys = heads * shape.key_dim;
            of.values = heads * shape.value_dim;
            of.queries -= of.keys + of.values;
        }
        (held.is_by_distance ? of.slopes : of.sinks) = held.per_head.size();
        if (auto const fits = check_attend_heads(of, held.options, held.share); !fits) return fits;
        return keeps_rows(shape) ? to.cache.check_columns(to.cache_layer, of.keys, of.values) : Result<>{};
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        auto const& held = std::get<HeldAttention<Backend>>(op.held);
        auto const& shape = held.options.shape;
        if (shape.latent > 0) return run_latent(walk, op, held);
        using ConstMatrix = typename BlockWalk<Backend, Policy, C, T>::ConstMatrix;
        typename BlockWalk<Backend, Policy, C, T>::Vector const none;
        typename BlockWalk<Backend, Policy, C, T>::Vector const per_head = held.per_head.view();
        auto const sinks = held.is_by_distance ? none : per_head;
        auto const slopes = held.is_by_distance ? per_head : none;
        auto const& share = held.share;
        auto q = walk.view(op.inputs[0]);
        auto k = walk.view(op.inputs[1]);
        auto v = walk.view(op.inputs[2]);
        if (held.is_fused) {
            auto const q_width = share.query.size() * shape.key_dim;
            auto const k_width = share.kv.size() * shape.key_dim;
            auto const all = q;
            q = all.columns(0, q_width);
            k = all.columns(q_width, k_width);
            v = all.columns(q_width + k_width, share.kv.size() * shape.value_dim);
        }
        if (shape.score_step > 0) {
            if (auto const grown = grow_scores(walk, shape, q); !grown) return grown;
        }
        auto const out = walk.view(op.output);
        auto const& step = walk.step;
        auto& stream = walk.stream;
        auto const attend = [&]<class Cache>(StepRows<Cache, Backend> const& keys,
                                             StepRows<Cache, Backend> const& values) {
            return attend_heads_bound<Backend, Cache, T>(q, keys, values, out, step.table, held.options, share, stream,
                                                         step.scratch, sinks, slopes);
        };
        // An encoder sees its whole sequence in one step and keeps nothing.
        if (!keeps_rows(shape)) return attend(StepRows<T, Backend>{k, {}, -1}, StepRows<T, Backend>{v, {}, -1});
        auto& cache = *step.cache;
        auto const layer = op.cache_layer;
        // What a decoder sees of a source is kept when that is encoded, and seen when the decoder computes.
        if (step.is_encoding || !shape.is_cross) {
            auto const stored = cache.store_bound(layer, ConstMatrix(k), ConstMatrix(v), step.table, stream);
            if (!stored || step.is_encoding) return stored;
        }
        return cache.with_element([&]<class Cache>(Cache) {
            auto const keys = cache.template key_memory<Cache>(layer);
            auto const values = cache.template value_memory<Cache>(layer);
            auto const group = cache.group(layer);
            return attend(StepRows<Cache, Backend>{keys.elements, keys.scales, group},
                          StepRows<Cache, Backend>{values.elements, values.scales, group});
        });
    }

private:
    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> grow_scores(BlockWalk<Backend, Policy, C, T>& walk, AttentionShape const& shape,
                                              TensorView<T, 2, Backend> q) {
        auto const growth = static_cast<float>(shape.score_growth);
        auto const positions = walk.step.table.positions();
        if constexpr (std::same_as<Backend, Host>)
            return attention_temperature_bound<T>(q, positions, shape.score_step, growth, walk.stream);
        else
            return attention_temperature<T>(q, positions, shape.score_step, growth, walk.stream);
    }

    /// How the scores of the rank's heads fall with distance, or a sink for each (gpt_oss).
    [[nodiscard]] static Result<Buffer<float, Backend>> load_per_head(Loader const& from, Operation const& op,
                                                                      UnitRange own) {
        if (op.attention().has_slopes) {
            auto const slopes = alibi_slopes(op.attention().heads);
            std::vector<float> part(slopes.begin() + own.begin, slopes.begin() + own.end);
            for (auto& slope : part) slope = op.attention().has_rounded_slopes ? from_bf16(to_bf16(slope)) : slope;
            return hold_floats<Backend>(from.context(), part);
        }
        if (op.attention().bias_reach > 0) return load_biases(from, op, own);
        if (op.parameters[0].empty()) return Buffer<float, Backend>{};
        auto const stored = from.find(op.parameters[0]);
        if (!stored) return stored.error();
        if (stored->tensor->shape.rank() != 1) return not_executed("an attention with scores of its own");
        UnitRange const heads[] = {own};
        return from.hold_vector(op.parameters[0], op.attention().heads, heads);
    }

    /// What the scores of the rank's heads gain by distance: of a head all keys from bias_reach before a query to as many after it.
    [[nodiscard]] static Result<Buffer<float, Backend>> load_biases(Loader const& from, Operation const& op,
                                                                    UnitRange own) {
        auto const stored = from.find(op.parameters[0]);
        if (!stored) return stored.error();
        auto const buckets = op.attention().bias_buckets;
        auto const reach = op.attention().bias_reach;
        bool const is_causal = op.attention().is_causal;
        // Fewer would leave no bucket for near keys, or none for those further away.
        auto const sides = is_causal ? 1 : 2;
        if (buckets < 2 * sides || reach <= buckets / (2 * sides) || reach > (1 << 20)) {
            return Error{ErrorCode::unsupported}
                .in("attention")
                .at(op.parameters[0])
                .because("has " + std::to_string(buckets) + " buckets for keys up to " + std::to_string(reach) +
                         " tokens away, which are too few, or too far");
        }
        auto const heads = op.attention().heads;
        auto const table = from.parameters().floats(*stored, buckets * heads, std::nullopt);
        if (!table) return table.error();
        std::vector<float> biases;
        for (auto head = own.begin; head < own.end; ++head) {
            for (auto offset = -reach; offset <= reach; ++offset) {
                // A causal query sees no key after it.
                auto const bucket = is_causal ? past_bucket(std::max<std::int64_t>(-offset, 0), buckets, reach)
                                              : relative_bucket(offset, buckets, reach);
                biases.push_back((*table)[static_cast<std::size_t>(bucket * heads + head)]);
            }
        }
        return hold_floats<Backend>(from.context(), biases);
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run_latent(BlockWalk<Backend, Policy, C, T>& walk,
                                             BoundOperation<Backend, Policy> const& op,
                                             HeldAttention<Backend> const& held) {
        auto const& heads = std::get<LatentHeads<Backend>>(walk.block.operations[held.expands].held);
        TensorView<T const, 2, Backend> const q = walk.view(op.inputs[0]);
        TensorView<T const, 2, Backend> const latents = walk.view(op.inputs[1]);
        auto const out = walk.view(op.output);
        auto& stream = walk.stream;
        auto const scale = held.options.scale;
        auto& cache = *walk.step.cache;
        auto const layer = op.cache_layer;
        auto const& step = walk.step;
        auto const stored = cache.store_bound(layer, latents, {}, step.table, stream);
        if (!stored) return stored;
        return cache.with_element([&]<class Cache>(Cache) {
            auto const memory = cache.template key_memory<Cache>(layer);
            StepRows<Cache, Backend> const seen{memory.elements, memory.scales, cache.group(layer)};
            return heads.template attend_bound<Cache, T>(q, seen, out, step.table, scale, step.scratch, stream);
        });
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
