// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/model_parts.hpp>
#include <shardwise/memory/training.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one rank holds of some of a model's tensors. Estimates and plans add up nothing else.
struct HeldMemory {
    Bytes weights{};
    /// Of the weights, what checkpoints store and nothing trains.
    Bytes buffers{};
    /// Of the weights, those of an adapter's base.
    Bytes frozen{};
    /// Optimizer states without an fp32 copy of the weights; 0 where nothing is trained.
    Bytes states{};
    /// Elements that training changes.
    std::int64_t parameters = 0;

    constexpr HeldMemory& operator+=(HeldMemory const& other) {
        weights += other.weights;
        buffers += other.buffers;
        frozen += other.frozen;
        states += other.states;
        parameters += other.parameters;
        return *this;
    }
    constexpr HeldMemory& operator-=(HeldMemory const& other) { return *this += -1 * other; }
    [[nodiscard]] friend constexpr HeldMemory operator*(std::int64_t count, HeldMemory held) {
        held.weights = count * held.weights;
        held.buffers = count * held.buffers;
        held.frozen = count * held.frozen;
        held.states = count * held.states;
        held.parameters *= count;
        return held;
    }
    friend constexpr bool operator==(HeldMemory const&, HeldMemory const&) = default;
};

/// What one rank holds of a tensor.
[[nodiscard]] constexpr HeldMemory held_memory(Tensor const& tensor, LayerPosition const& position,
                                               EstimateRequest const& request, RankPlace const& place) {
    HeldMemory held{.weights = shard_bytes(tensor, position, request, place)};
    if (!tensor.is_parameter()) {
        held.buffers = held.weights;
    } else if (is_frozen(tensor, request)) {
        held.frozen = held.weights;
    } else {
        held.parameters = shard_of(tensor, request.parallel, place, position.grain).elements();
        if (request.training) held.states = Bytes{optimizer_state_bytes(request.training->optimizer, held.parameters)};
    }
    return held;
}

/// What one rank holds of one instance of a part.
[[nodiscard]] constexpr HeldMemory held_memory(Model const& model, ModelPart const& part,
                                               EstimateRequest const& request, RankPlace const& place) {
    return sum_part(model, part, request.parallel, place, [&](Tensor const& tensor, LayerPosition const& at) {
        return held_memory(tensor, at, request, place);
    });
}

/// What a tied tensor takes under its second name, which counts nothing where the first is on the same rank.
[[nodiscard]] constexpr HeldMemory held_memory(TiedPart const& tie, EstimateRequest const& request,
                                               RankPlace const& place) {
    return held_memory(tie.tensor, tie.position, request, place);
}

/// The elements on one rank of the module that has the most of its own.
[[nodiscard]] constexpr std::int64_t largest_module(Model const& model, EstimateRequest const& request,
                                                    RankPlace const& place) {
    std::int64_t most = 0;
    for (auto const& module : model.tree.modules()) {
        std::int64_t own = 0;
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            auto const& tensor = model.tree.tensor(module, i);
            if (is_trained(tensor, request)) own += shard_of(tensor, request.parallel, place).elements();
        }
        if (most < own) most = own;
    }
    return most;
}

/// What training keeps depends on of what a rank holds; `largest_part` and `largest_module` are the caller's to add.
[[nodiscard]] constexpr TrainingShare training_share(HeldMemory const& held, EstimateRequest const& request,
                                                     ModelConfig const& config, std::int64_t dp) {
    return {.parameters = held.parameters,
            .parameter_bytes = held.weights - held.buffers - held.frozen,
            .buffer_bytes = held.buffers,
            .frozen_bytes = held.frozen,
            .state_bytes = held.states,
            .dtype = request.dtype.value_or(config.dtype_or(Dtype::f32)),
            .dp = dp};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
