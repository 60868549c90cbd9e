// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/model_parts.hpp>
#include <shardwise/model/find_module.hpp>
#include <shardwise/model/value_grains.hpp>
#include <shardwise/quant/scheme_grain.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The inputs of a weight that stay together where shardwise loads it as the request packs it, or as its file stores it.
[[nodiscard]] constexpr std::int64_t input_grain(Tensor const& tensor, LayerPosition const& position,
                                                 EstimateRequest const& request) {
    if (!tensor.is_matrix()) return 1;
    if (!request.quant) return request.dtype ? 1 : tensor.stored_block;
    return scheme_grain(*request.quant, detail::weight_of(tensor, position, request), detail::mixture_model(position));
}

namespace detail {

/// Notes for a part which units of its tensors stay together.
class PartGrainFinder {
public:
    constexpr PartGrainFinder(ModelPart& part, Model const& model, EstimateRequest const& request)
        : part_(part), model_(model), request_(request) {}

    /// By value of the part's body.
    constexpr List<UnitGrain> find() const {
        auto const inputs = input_grains();
        if (inputs.empty()) return {};
        auto const& body = model_.program.bodies()[static_cast<std::size_t>(part_.body)];
        auto grains = value_grains(body, [&](Operation const& op) {
            auto const& in = body.values()[static_cast<std::size_t>(op.inputs[0])];
            auto const* const weight = find_parameter(model_.tree, model_.tree.module(part_.module), op.parameters[0]);
            std::int64_t together = 1;
            for (auto const& known : inputs) {
                if (known.tensor == weight) together = known.grain.units;
            }
            return sum_pieces(in, together, [&] { return block_pieces(in.width, together); });
        });
        for (auto const& op : body.operations()) {
            auto const grain = grains[static_cast<std::size_t>(is_shared_sum(body, op) ? op.inputs[0] : op.output)];
            if (grain.units <= 1) continue;
            for (auto const parameter : op.parameters) note(parameter, grain);
        }
        return grains;
    }

private:
    constexpr void note(std::string_view parameter, UnitGrain grain) const {
        if (parameter.empty()) return;
        auto const* const tensor = find_parameter(model_.tree, model_.tree.module(part_.module), parameter);
        if (tensor != nullptr && tensor->shard.is_shared()) part_.grains.push_back({tensor, grain});
    }
    /// Of the tensors whose inputs do not stand alone.
    constexpr List<TensorGrain> input_grains() const {
        List<TensorGrain> grains;
        (void)sum_body(model_.tree, part_.module, part_.position, {}, {},
                       [&](Tensor const& tensor, LayerPosition const& position) {
                           auto const units = input_grain(tensor, position, request_);
                           if (units > 1) grains.push_back({&tensor, {units, 0}});
                           return std::int64_t{0};
                       });
        return grains;
    }

    ModelPart& part_;
    Model const& model_;
    EstimateRequest const& request_;
};

/// Notes how a part runs its body: the first of a body's parts says how the body is cut, others that differ have one of their own.
constexpr void note_body(ModelParts& parts, ModelPart& part, List<UnitGrain> grains) {
    bool is_first = true;
    for (auto const& other : parts.parts) {
        if (&other == &part) break;
        if (other.body == part.body && !other.is_own_tensors) is_first = false;
    }
    if (is_first) {
        parts.bodies[static_cast<std::size_t>(part.body)].grains = static_cast<List<UnitGrain>&&>(grains);
        return;
    }
    std::size_t known = 0;
    while (known < parts.bodies.size() &&
           !(parts.bodies[known].body == part.body && parts.bodies[known].grains == grains))
        ++known;
    part.grained = static_cast<std::int32_t>(known);
    if (known == parts.bodies.size()) parts.bodies.push_back({part.body, static_cast<List<UnitGrain>&&>(grains)});
}

}  // namespace detail

/// Notes for every part which units of its tensors and of its body's values stay together where shardwise loads what the request or
/// a file packs. Tensor-parallel shares are then those that loading cuts: blocks of a packed weight stay whole, and what makes a
/// sum's inputs is cut where the sum is. Training keeps plain numbers. `model` outlives the parts.
constexpr void find_grains(ModelParts& parts, Model const& model, EstimateRequest const& request) {
    bool is_packed = request.quant.has_value();
    for (auto const& tensor : model.tree.tensors())
        is_packed = is_packed || (!request.dtype && tensor.stored_block > 1);
    if (!is_packed || request.training) return;
    for (auto& part : parts.parts) {
        if (part.body < 0 || part.is_own_tensors) continue;
        detail::note_body(parts, part, detail::PartGrainFinder(part, model, request).find());
    }
}

/// The parts of a model as a request cuts it, with the grains of what it packs.
[[nodiscard]] constexpr ModelParts request_parts(Model const& model, EstimateRequest const& request) {
    auto parts = find_parts(model, depends_on_layer(request));
    find_grains(parts, model, request);
    return parts;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
