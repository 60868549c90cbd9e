// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/memory/shard.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/family.hpp>
#include <shardwise/model/low_rank_names.hpp>
#include <shardwise/model/module_tree.hpp>
#include <shardwise/model/tensor_weight.hpp>
#include <shardwise/quant/quantized_bytes.hpp>

#include <cstdint>
#include <numeric>
#include <string_view>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where in the model a tensor stands: quantisation schemes choose by layer and by its module's class.
struct LayerPosition {
    /// The layer's number; -1 outside of the layers.
    std::int64_t layer = -1;
    std::int64_t layers = 0;
    /// True where the head is the embedding's tensor.
    bool is_head_tied = false;
    std::int64_t heads_per_kv_head = 1;
    std::int64_t experts = 0;
    bool mixes_lightly = false;
    /// True within a routed expert.
    bool is_expert = false;
    /// The class of the tensor's module.
    std::string_view class_name{};
    /// Of one tensor: which units of its sharded dimension stay together (find_grains).
    UnitGrain grain{};

    /// The position of the tensors of a child.
    [[nodiscard]] constexpr LayerPosition inside(Child const& child, Module const& module) const {
        auto inner = *this;
        inner.class_name = module.class_name;
        inner.is_expert = is_expert || child.role == ModuleRole::expert;
        return inner;
    }
};

/// The position of a model's root.
[[nodiscard]] constexpr LayerPosition root_position(ModelConfig const& config, ModuleTree const& tree,
                                                    Family const* family) {
    LayerPosition position;
    for (auto const& child : tree.children()) position.layers += child.role == ModuleRole::layer ? child.count : 0;
    position.is_head_tied = config.tie_word_embeddings;
    position.heads_per_kv_head = config.kv_heads > 0 ? config.heads / config.kv_heads : 1;
    position.experts = config.experts;
    position.mixes_lightly = family != nullptr && family->gguf_form.mixes_lightly;
    if (!tree.modules().empty()) position.class_name = tree.module(tree.root()).class_name;
    return position;
}

/// True where a tensor's size depends on the layer it is in: mixtures by layer. Otherwise one layer of a run stands for
/// all.
[[nodiscard]] constexpr bool depends_on_layer(EstimateRequest const& request) {
    return request.quant && request.quant->method == QuantMethod::ggml_file;
}

namespace detail {

[[nodiscard]] constexpr MixtureModel mixture_model(LayerPosition const& position) {
    return {.layers = position.layers,
            .heads_per_kv_head = position.heads_per_kv_head,
            .experts = position.experts,
            .has_output_weight = !position.is_head_tied,
            .mixes_lightly = position.mixes_lightly};
}

/// What a scheme sees of a tensor.
[[nodiscard]] constexpr Weight weight_of(Tensor const& tensor, LayerPosition const& position,
                                         EstimateRequest const& request) {
    auto weight = shardwise::weight_of(tensor, position.class_name, position.is_expert, position.layer);
    if (request.dtype && traits(tensor.dtype).is_floating) weight.dtype = *request.dtype;
    return weight;
}

/// whole * part / all, rounded up, in steps that cannot overflow where the result fits.
[[nodiscard]] constexpr std::int64_t share_of(std::int64_t whole, std::int64_t part, std::int64_t all) {
    if (all <= 0 || part >= all) return whole;
    auto const common = std::gcd(part, all);
    part /= common;
    all /= common;
    auto const rest = whole % all;
    auto const quotient = whole / all * part;
    if (auto const product = checked_multiply(rest, part)) return quotient + ceil_divide(*product, all);
    // A product beyond 63 bits: a byte more than the quotient of doubles bounds it.
    auto const ratio = static_cast<double>(rest) / static_cast<double>(all) * static_cast<double>(part);
    return quotient + static_cast<std::int64_t>(ratio) + 1;
}

}  // namespace detail

/// True for what training changes and keeps states of: parameters; beside an adapter its halves alone.
[[nodiscard]] constexpr bool is_trained(Tensor const& tensor, EstimateRequest const& request) {
    return tensor.is_parameter() && (!trains_adapter(request) || is_low_rank_half(tensor.name));
}
/// True for the parameters of an adapter's base.
[[nodiscard]] constexpr bool is_frozen(Tensor const& tensor, EstimateRequest const& request) {
    return tensor.is_parameter() && trains_adapter(request) && !is_low_rank_half(tensor.name);
}

/// The memory of one tensor: packed by the quantisation scheme, else recast by --dtype where it is floating, else as
/// stored. Buffers that checkpoints do not store take none: they are computed, and engines hold them in their own form. Beside an
/// adapter a tensor takes what the tree says.
[[nodiscard]] constexpr Bytes weight_bytes(Tensor const& tensor, LayerPosition const& position,
                                           EstimateRequest const& request) {
    if (tensor.kind == TensorKind::transient_buffer) return Bytes{0};
    if (trains_adapter(request)) return tensor.bytes();
    if (request.quant) {
        auto const packed = quantized_bytes(*request.quant, detail::weight_of(tensor, position, request),
                                            detail::mixture_model(position));
        return packed ? Bytes{*packed} : tensor.bytes();
    }
    if (request.dtype && traits(tensor.dtype).is_floating) {
        return Bytes{ceil_divide(tensor.shape.elements() * bits(*request.dtype), 8)};
    }
    return tensor.bytes();
}

/// The memory of one rank's share of a tensor; of a packed one, its share of the elements, rounded up.
[[nodiscard]] constexpr Bytes shard_bytes(Tensor const& tensor, LayerPosition const& position,
                                          EstimateRequest const& request, RankPlace const& place) {
    if (request.parallel.tp == 1 && request.parallel.ep == 1) return weight_bytes(tensor, position, request);
    auto share = tensor;
    share.shape = shard_of(tensor, request.parallel, place, position.grain).shape();
    if (share.shape == tensor.shape) return weight_bytes(tensor, position, request);
    bool const is_packed = request.quant || (tensor.stored_bytes >= 0 && (!request.dtype || trains_adapter(request)));
    if (!is_packed) return weight_bytes(share, position, request);
    return Bytes{detail::share_of(weight_bytes(tensor, position, request).count(), share.shape.elements(),
                                  tensor.shape.elements())};
}

/// What a measure of tensors adds up to: numbers, or several of them (HeldMemory).
template <class Measure>
using MeasureSum = std::invoke_result_t<Measure const&, Tensor const&, LayerPosition const&>;

/// The sum of `measure(tensor, position)` over a body and all that is in it, each expert of this rank counted.
template <class Measure>
[[nodiscard]] constexpr MeasureSum<Measure> sum_body(ModuleTree const& tree, ModuleId id, LayerPosition const& position,
                                                     Parallelism const& parallel, RankPlace const& place,
                                                     Measure const& measure) {
    auto const& module = tree.module(id);
    MeasureSum<Measure> sum{};
    for (std::uint32_t i = 0; i < module.tensor_count; ++i) sum += measure(tree.tensor(module, i), position);
    for (std::uint32_t i = 0; i < module.child_count; ++i) {
        auto const& child = tree.child(module, i);
        std::int64_t count = child.count;
        if (child.role == ModuleRole::expert && parallel.ep > 1) {
            auto const experts = position.experts > 0 ? position.experts : std::int64_t{child.first} + child.count;
            auto const own = split_units(experts, parallel.ep, place.ep);
            auto const begin = own.begin < child.first ? child.first : own.begin;
            auto const last = std::int64_t{child.first} + child.count;
            auto const end = own.end < last ? own.end : last;
            count = begin < end ? end - begin : 0;
        }
        if (count == 0) continue;
        auto const inner = position.inside(child, tree.module(child.module));
        sum += count * sum_body(tree, child.module, inner, parallel, place, measure);
    }
    return sum;
}

/// The weights of a body on one rank, `position` being that of its own tensors.
[[nodiscard]] constexpr Bytes body_bytes(ModuleTree const& tree, ModuleId id, LayerPosition const& position,
                                         EstimateRequest const& request, RankPlace const& place = {}) {
    return Bytes{
        sum_body(tree, id, position, request.parallel, place, [&](Tensor const& tensor, LayerPosition const& at) {
            return shard_bytes(tensor, at, request, place).count();
        })};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
