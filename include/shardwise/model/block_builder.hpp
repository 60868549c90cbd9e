// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/body_builder.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/find_module.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How ranks hold what a product makes, as its weight's shard rule says; dimension `out_dim` of the weight are the outputs.
[[nodiscard]] constexpr OutputSplit split_of(ShardRule const& rule, std::uint8_t out_dim) {
    if (rule.is_shared() && rule.dim != out_dim) return Spread::partial;
    // What a product makes lies in the order of the heads, wherever the file has their rows.
    UnitSplit columns = rule;
    columns.is_grouped = false;
    return columns;
}

/// What is particular of experts whose weights one tensor stacks.
struct StackedExperts {
    /// Rows are multiplied by their router's weights before the product (llama4).
    bool weighs_inputs = false;
    /// Outputs are gates and ups in turn (gpt_oss).
    bool alternates = false;
};

/// Writes a block's operations over the modules of the tree. Which parameters there are, their names, sizes, biases and how ranks
/// share them is what the tree says: a family says it there, once. Paths are relative to the block's module; the empty
/// path is that module itself.
class BlockBuilder : public BodyBuilder {
public:
    /// `names` keeps the parameters' names; all arguments outlive the body.
    constexpr BlockBuilder(NameArena& names, ModuleTree const& tree, Module const& module, Value input)
        : BodyBuilder(input), names_(names), tree_(tree), module_(module) {}

    /// True where the block has a module of this path.
    [[nodiscard]] constexpr bool has(std::string_view path) const {
        return find_module(tree_, &module_, path) != nullptr;
    }

    /// The same for a module with a weight.
    [[nodiscard]] constexpr bool has_weight(std::string_view path) const {
        return parameter_of(path, "weight") != nullptr;
    }
    /// The path of a module within another.
    [[nodiscard]] constexpr std::string_view path(std::string_view within, std::string_view name) {
        return names_.join(within, ".", name);
    }

    /// in * weight^T + bias; reads as many columns of each row as the weight has inputs.
    constexpr ValueId linear(ValueId in, std::string_view value, std::string_view path) {
        auto const found = find(path);
        if (!found) return in;
        auto const& shape = found.weight->shape;
        std::uint8_t const out = found.weight->is_transposed ? 1 : 0;
        return BodyBuilder::linear(in, value, found.name, shape[out], split_of(found.weight->shard, out), found.bias,
                                   shape[1U - out]);
    }
    /// Scores of every vocabulary entry, in fp32.
    constexpr ValueId logits(ValueId in, std::string_view path) { return linear(in, "logits", path); }

    /// One linear layer of every expert; `path` has a `*` for their numbers.
    constexpr ValueId experts(ValueId in, ValueId routes, std::string_view value, std::string_view path) {
        auto const found = find(path);
        if (!found) return in;
        auto const& shape = found.weight->shape;
        return BodyBuilder::experts(in, routes, value, found.name, shape[0], routing_of(routes),
                                    split_of(found.weight->shard, 0), found.bias);
    }
    /// The same where one tensor stacks the weights of all experts and another their biases; `stored` says how those lie and when rows
    /// are multiplied by their router's weights.
    constexpr ValueId stacked_experts(ValueId in, ValueId routes, std::string_view value, std::string_view tensor,
                                      std::string_view bias, StackedExperts const& stored = {}) {
        auto const* const weight = parameter(tensor);
        if (weight == nullptr) return refused(in, tensor);
        std::uint8_t const out = weight->is_transposed ? 2 : 1;
        auto routing = routing_of(routes);
        routing.weighs_inputs = stored.weighs_inputs;
        routing.alternates = stored.alternates;
        auto split = split_of(weight->shard, out);
        // A unit of the weight is a gate and its up, and the value has all gates before all ups.
        if (stored.alternates) split = UnitSplit{weight->shard.count, 2, ShardKind::packed_parts};
        return BodyBuilder::experts(in, routes, value, tensor, weight->shape[out], routing, split, present(bias));
    }
    /// The top-k experts and their weights from router scores, as a model's routers choose; `bias` names a tensor that corrects the
    /// choice, where there is one.
    constexpr ValueId route(ValueId scores, ModelConfig const& config, std::string_view bias = {},
                            double near_share = 0.0) {
        RouterRule const rule{.score = config.router_score,
                              .renormalises = config.norm_expert_weights,
                              .scale = config.routed_scale,
                              .groups = config.expert_groups,
                              .kept_groups = config.kept_expert_groups,
                              .group_rank = config.group_rank,
                              .near_share = near_share};
        return BodyBuilder::route(scores, at(scores).width, config.experts_per_token, present(bias), rule);
    }
    /// The weighted sum of each token's experts.
    constexpr ValueId combine(ValueId routed, ValueId routes) {
        return BodyBuilder::combine(routed, routes, routing_of(routes));
    }

    /// A norm over the last axis; one without parameters where the module has none.
    constexpr ValueId norm(ValueId in, NormKind kind, std::string_view path, double epsilon = 0.0) {
        auto const found = find_norm(path);
        return found ? BodyBuilder::norm(in, kind, found.name, found.bias, epsilon) : in;
    }
    constexpr ValueId layer_norm(ValueId in, std::string_view path) { return norm(in, NormKind::layer, path); }
    /// A norm over each head, in place. Heads have weights of their own where the weight has a row for each, or the path a `*`.
    constexpr ValueId head_norm(ValueId in, NormKind kind, std::string_view path) {
        auto const found = find(path);
        if (!found) return in;
        auto const& shape = found.weight->shape;
        bool const has_head_weights = shape.rank() == 2 || path.find('*') != std::string_view::npos;
        return BodyBuilder::head_norm(in, kind, found.name, shape[shape.rank() - 1], found.bias, has_head_weights);
    }
    /// The same without parameters.
    constexpr ValueId plain_head_norm(ValueId in, NormKind kind, std::int64_t head_dim) {
        return BodyBuilder::head_norm(in, kind, {}, head_dim);
    }
    /// A norm over the first elements of a row, as many as the weight has, in place.
    constexpr ValueId part_norm(ValueId in, NormKind kind, std::string_view path, double epsilon = 0.0) {
        auto const found = find(path);
        return found ? BodyBuilder::part_norm(in, kind, found.name, found.weight->shape.elements(), epsilon) : in;
    }

    /// act(in); where the activation has parameters, they are those of the module at `path`.
    constexpr ValueId activation(ValueId in, ActivationKind kind, std::string_view path = {}) {
        if (kind != ActivationKind::xielu || path.empty()) return BodyBuilder::activation(in, kind);
        std::array<std::string_view, 4> names{"alpha_p", "alpha_n", "beta", "eps"};
        for (auto& name : names) {
            auto const full = name_of(path, name);
            if (parameter_of(path, name) == nullptr) return refused(in, full);
            name = full;
        }
        return BodyBuilder::activation(in, kind, names);
    }

    /// The gated delta rule with the parameters of the module at `path`.
    constexpr ValueId gated_delta(ValueId qkvz, ValueId ba, DeltaShape const& shape, std::string_view path) {
        std::array<std::string_view, 4> names{"conv1d.weight", "dt_bias", "A_log", "norm.weight"};
        for (auto& name : names) {
            name = names_.join(path, ".", name);
            if (parameter(name) == nullptr) return refused(qkvz, name);
        }
        return BodyBuilder::gated_delta(qkvz, ba, shape, names);
    }

    /// Rows of a table by token id.
    constexpr ValueId embedding(ValueId ids, std::string_view path) {
        auto const found = find(path);
        if (!found) return ids;
        return BodyBuilder::embedding(ids, found.name, found.weight->shape[0], found.weight->shape[1]);
    }
    /// Rows of a table of positions or token types, as BodyBuilder's.
    constexpr ValueId table(ValueId ids, TableIndex index, std::string_view path, std::int64_t first_row = 0,
                            std::int64_t skipped_id = -1) {
        auto const found = find(path);
        if (!found) return ids;
        auto const& shape = found.weight->shape;
        return BodyBuilder::table(ids, index, found.name, shape[0], shape[1], first_row, skipped_id);
    }

    /// softmax(q k^T) v; `scores` names a tensor that changes the scores, where there is one.
    constexpr ValueId attention(ValueId q, ValueId k, ValueId v, AttentionShape const& shape,
                                std::string_view scores = {}) {
        // Sharded by heads in one range: the query, key and value of each head lie together (gpt_neox, bloom).
        auto const* const fused = q == k ? parameter(weight_of(q)) : nullptr;
        bool const is_grouped = fused != nullptr && (fused->shard.kind == ShardKind::units || fused->shard.is_grouped);
        if (is_grouped) group_heads(q, shape);
        return BodyBuilder::attention(q, k, v, shape, present(scores));
    }

private:
    /// A module's weight and the names of its parameters.
    struct Found {
        Tensor const* weight = nullptr;
        std::string_view name;
        std::string_view bias;
        constexpr explicit operator bool() const { return weight != nullptr; }
    };

    static constexpr Tensor without_parameters{};

    [[nodiscard]] constexpr Tensor const* parameter_of(std::string_view path, std::string_view tensor) const {
        auto const* const module = find_module(tree_, &module_, path);
        return module == nullptr ? nullptr : find_own_tensor(tree_, *module, tensor);
    }
    [[nodiscard]] constexpr Tensor const* parameter(std::string_view name) const {
        return name.empty() ? nullptr : find_parameter(tree_, module_, name);
    }
    /// The name of a tensor, where there is one.
    [[nodiscard]] constexpr std::string_view present(std::string_view name) const {
        return parameter(name) == nullptr ? std::string_view{} : name;
    }
    constexpr ValueId refused(ValueId in, std::string_view name) {
        refuse(name, "is no parameter of the block's modules");
        return in;
    }
    [[nodiscard]] constexpr std::string_view name_of(std::string_view path, std::string_view tensor) {
        return path.empty() ? tensor : names_.join(path, ".", tensor);
    }
    constexpr Found find(std::string_view path) {
        auto const* const module = find_module(tree_, &module_, path);
        auto const* const weight = module == nullptr ? nullptr : find_own_tensor(tree_, *module, "weight");
        if (weight == nullptr) {
            (void)refused(no_value, path);
            return {};
        }
        Found found{weight, name_of(path, "weight"), {}};
        if (find_own_tensor(tree_, *module, "bias") != nullptr) found.bias = name_of(path, "bias");
        return found;
    }
    /// The same for a norm, which may have no parameters.
    constexpr Found find_norm(std::string_view path) {
        auto const* const module = find_module(tree_, &module_, path);
        if (module == nullptr || module->tensor_count > 0) return find(path);
        return {&without_parameters, {}, {}};
    }
    NameArena& names_;
    ModuleTree const& tree_;
    Module const& module_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
