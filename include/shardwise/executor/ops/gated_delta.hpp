// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/executor/step_capacity.hpp>
#include <shardwise/kernels/gated_delta.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The rank's key heads of all sequences of a step, whose states are in the cache: on the host in one call.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<GatedDeltaOp, Backend, Policy> {
    using Held = HeldOperation<Backend, Policy>;

    [[nodiscard]] static Result<Held> load(OperationLoader<Backend> const& from, Operation const& op, BlockBody const&,
                                           BlockCut const& cut) {
        auto const& shape = op.delta();
        auto const own = cut.delta_heads;
        if (own.size() == 0) return Held{};
        auto const values = shape.value_columns();
        auto const kernel = shape.kernel;
        auto const channels = [&](std::int64_t first, std::int64_t of_head) {
            return UnitRange{(first + own.begin * of_head) * kernel, (first + own.end * of_head) * kernel};
        };
        auto const keys = shape.key_heads * shape.key_dim;
        UnitRange const convolved[] = {channels(0, shape.key_dim), channels(keys, shape.key_dim),
                                       channels(2 * keys, values)};
        UnitRange const heads[] = {{own.begin * shape.values_per_key(), own.end * shape.values_per_key()}};
        HeldDelta<Backend> held;
        held.shape = shape;
        held.shape.value_heads = own.size() * shape.values_per_key();
        held.shape.key_heads = own.size();
        held.epsilon = static_cast<float>(from.model().config.norm_epsilon);
        auto convolution =
            from.hold_vector(op.parameters[0], (2 * keys + shape.key_heads * values) * kernel, convolved);
        if (!convolution) return convolution.error();
        auto dt_bias = from.hold_vector(op.parameters[1], shape.value_heads, heads);
        if (!dt_bias) return dt_bias.error();
        auto logarithms = from.floats(op.parameters[2], shape.value_heads, heads);
        if (!logarithms) return logarithms.error();
        // llama.cpp's converter stores the decay itself.
        if (!from.is_gguf()) {
            for (auto& value : *logarithms) value = -std::exp(value);
        }
        auto decay = hold_floats<Backend>(from.context(), *logarithms);
        if (!decay) return decay.error();
        auto norm = from.hold_vector(op.parameters[3], shape.value_dim);
        if (!norm) return norm.error();
        held.convolution = std::move(*convolution);
        held.dt_bias = std::move(*dt_bias);
        held.decay = std::move(*decay);
        held.norm = std::move(*norm);
        return Held{std::move(held)};
    }

    [[nodiscard]] static Result<> count(MemoryTally& to, CountedBlock const& block, Operation const& op,
                                        ParameterFormat) {
        auto const& shape = op.delta();
        auto const own = block.cut.delta_heads.size();
        if (own == 0) return {};
        to.add_vector(op, 0, own * shape.channels() * shape.kernel);
        to.add_vector(op, 1, own * shape.values_per_key());
        to.add_vector(op, 2, own * shape.values_per_key());
        to.add_vector(op, 3, shape.value_dim);
        return to.add_cache(block, op);
    }

    [[nodiscard]] static std::int64_t scratch(CountedBlock const& block, Operation const& op, std::size_t) {
        auto const heads = block.cut.delta_heads.size();
        auto const& limits = block.limits;
        if constexpr (HasHostMemory<Backend>) {
            return std::min(limits.sequences, limits.step_tokens) * gated_delta_workspace(op.delta(), heads);
        } else {
            return gated_delta_workspace<Backend>(op.delta(), heads, limits.step_tokens);
        }
    }

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const& to) {
        auto const* const held = std::get_if<HeldDelta<Backend>>(&op.held);
        if (held == nullptr) return {};
        using Row = TensorView<float const, 2, Backend>;
        // Only its size is asked.
        TensorView<float, 1, Backend> const state(reinterpret_cast<float*>(op.output.data),
                                                  {to.cache.state_elements(to.cache_layer)});
        return check_gated_delta(Row(row_of<Backend>(op.inputs[0])), Row(row_of<Backend>(op.inputs[1])), held->shape,
                                 held->weights(), state, {}, 0, row_of<Backend>(op.output));
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        auto const* const held = std::get_if<HeldDelta<Backend>>(&op.held);
        if (held == nullptr) return {};
        auto const weights = held->weights();
        TensorView<T const, 2, Backend> const in = walk.view(op.inputs[0]);
        TensorView<T const, 2, Backend> const ba = walk.view(op.inputs[1]);
        auto const out = walk.view(op.output);
        auto const& step = walk.step;
        auto& cache = *step.cache;
        auto const layer = op.cache_layer;
        for (auto const& part : step.parts) {
            if (auto const stands = cache.check_state(layer, part.slot, part.past); !stands) return stands;
        }
        for (auto const& part : step.parts) cache.advance_state(layer, part.slot, part.past + part.tokens);
        auto const states = cache.states(layer);
        if constexpr (HasHostMemory<Backend>) {
            // Of the step, not of what is bound.
            auto const fits = check_delta_step(step.table, in.extent(0), states.extent(0));
            if (!fits) return fits;
            return gated_delta_bound(in, ba, held->shape, weights, states, step.table, step.scratch, out, walk.stream);
        } else {
            std::int64_t first = 0;
            for (auto const& part : step.parts) {
                TensorView<float, 1, Backend> const state(states.row(part.slot), {states.extent(1)});
                auto const done =
                    gated_delta(in.rows(first, part.tokens), ba.rows(first, part.tokens), held->shape, weights,
                                part.past == 0, state, step.scratch, out.rows(first, part.tokens), walk.stream);
                if (!done) return done;
                first += part.tokens;
            }
            return {};
        }
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
