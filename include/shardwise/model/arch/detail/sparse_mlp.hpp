// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/field.hpp>

#include <array>

/// The Mixture-of-Experts MLP with one module per expert that the qwen families and mixtral share.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The paths of one sparse MLP's router and of the three linear layers of its experts, whose numbers a `*` stands for.
struct SparseMlpNames {
    std::string_view router = "mlp.gate";
    std::string_view gate = "mlp.experts.*.gate_proj";
    std::string_view up = "mlp.experts.*.up_proj";
    std::string_view down = "mlp.experts.*.down_proj";
    /// A tensor that corrects the router's choice, where the tree has it.
    std::string_view correction = "mlp.gate.e_score_correction_bias";
    /// Of the sparse mixer: by what share of itself a logit may fall short of the best.
    double near_share = 0.0;
};

/// The router, a linear layer that every rank holds.
[[nodiscard]] constexpr ModuleId add_router(ModuleTree& tree, ModelConfig const& config) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    return part.linear(config.experts, config.hidden_size, false, {}, TensorUse::router);
}

/// The run of experts, sharded over expert-parallel ranks by their numbers.
[[nodiscard]] constexpr ModuleId add_expert_list(ModuleTree& tree, ModelConfig const& config, ModuleId expert) {
    return tree.add("ModuleList", {}, {numbered(0, config.experts, expert, ModuleRole::expert)});
}

/// mlp of a sparse layer of the qwen families: gate and experts, then the gated shared expert where there is one.
[[nodiscard]] constexpr ModuleId add_sparse_mlp(ModuleTree& tree, ModelConfig const& config,
                                                LlamaLayout const& layout) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const expert = add_gated_mlp(tree, config, layout, config.expert_intermediate_size);
    List<Child> children{{"gate", add_router(tree, config)}, {"experts", add_expert_list(tree, config, expert)}};
    if (config.shared_expert_intermediate_size > 0) {
        children.push_back(
            {"shared_expert", add_gated_mlp(tree, config, layout, config.shared_expert_intermediate_size)});
        children.push_back({"shared_expert_gate", part.linear(1, config.hidden_size, false)});
    }
    return tree.add(part.name(layout.prefix, "SparseMoeBlock"), children);
}

/// block_sparse_moe of mixtral and phimoe: the router, and experts w1 (gate), w2 (down) and w3 (up). minimax_m2's has a tensor that
/// corrects the choice, too.
[[nodiscard]] constexpr ModuleId add_numbered_experts(ModuleTree& tree, ModelConfig const& config,
                                                      LlamaLayout const& layout, bool has_correction = false) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const width = config.expert_intermediate_size;
    auto const in = part.linear(width, config.hidden_size, false, ShardRule::units(0, width), TensorUse::ffn_up);
    auto const out = part.linear(config.hidden_size, width, false, ShardRule::units(1, width), TensorUse::ffn_down);
    auto const expert =
        tree.add(part.name(layout.prefix, "BlockSparseTop2MLP"), {},
                 {{"w1", in}, {"w2", out}, {"w3", in}, {"act_fn", part.plain(activation_class(config.activation))}});
    auto const name = part.name(layout.prefix, "SparseMoeBlock");
    auto const router = add_router(tree, config);
    auto const experts = add_expert_list(tree, config, expert);
    if (!has_correction) return tree.add(name, {}, {{"gate", router}, {"experts", experts}});
    Tensor const correction{.name = "e_score_correction_bias",
                            .shape = {config.experts},
                            .dtype = config.dtype_or(Dtype::f32),
                            .kind = TensorKind::buffer,
                            .use = TensorUse::bias};
    return tree.add(name, {correction}, {{"gate", router}, {"experts", experts}});
}
inline constexpr SparseMlpNames numbered_experts{.router = "block_sparse_moe.gate",
                                                 .gate = "block_sparse_moe.experts.*.w1",
                                                 .up = "block_sparse_moe.experts.*.w3",
                                                 .down = "block_sparse_moe.experts.*.w2",
                                                 .correction = {}};

/// transformers 5 writes them as stacked weights of an `mlp`.
inline constexpr std::array endings_of_numbered_experts{
    NameAlias{"mlp.experts.gate_up_proj", "block_sparse_moe.experts.*.w1.weight"},
    NameAlias{"mlp.experts.gate_up_proj", "block_sparse_moe.experts.*.w3.weight"},
    NameAlias{"mlp.experts.down_proj", "block_sparse_moe.experts.*.w2.weight"},
    NameAlias{"mlp.gate.weight", "block_sparse_moe.gate.weight"},
};

/// The runs of decoder layers where some have experts and others do not.
[[nodiscard]] constexpr List<Child> mixed_layers(ModelConfig const& config, ModuleId sparse, ModuleId dense) {
    List<Child> runs;
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
        auto const module = config.dense_layers.contains(layer) ? dense : sparse;
        if (!runs.empty() && runs.back().module == module)
            ++runs.back().count;
        else
            runs.push_back(numbered(layer, 1, module, ModuleRole::layer));
    }
    return runs;
}

/// The tree of a family with layers of both kinds.
[[nodiscard]] constexpr ModuleTree mixed_decoder_tree(ModelConfig const& config, LlamaLayout const& layout) {
    ModuleTree tree;
    auto const attention = add_attention(tree, config, layout);
    std::int64_t dense_layers = 0;
    for (std::int64_t layer = 0; layer < config.layers; ++layer)
        dense_layers += config.dense_layers.contains(layer) ? 1 : 0;
    ModuleId sparse = 0;
    ModuleId dense = 0;
    if (dense_layers < config.layers) {
        sparse = add_decoder_layer(tree, config, layout, attention, add_sparse_mlp(tree, config, layout));
    }
    if (dense_layers > 0) {
        auto const mlp = add_gated_mlp(tree, config, layout, config.intermediate_size);
        dense = add_decoder_layer(tree, config, layout, attention, mlp);
    }
    finish_decoder(tree, config, layout, mixed_layers(config, sparse, dense), config.head_dim);
    return tree;
}

/// router -> route -> gate, up -> act(gate) * up -> down -> combine, over the experts that each token chose.
[[nodiscard]] constexpr ValueId append_experts(BlockBuilder& body, ModelConfig const& config, ValueId normed,
                                               SparseMlpNames const& names = {}) {
    auto const routes =
        body.route(body.linear(normed, "router", names.router), config, names.correction, names.near_share);
    auto const gate = body.experts(normed, routes, "gate", names.gate);
    auto const up = body.experts(normed, routes, "up", names.up);
    auto const activated = body.gated(gate, up, config.activation);
    return body.combine(body.experts(activated, routes, "experts_out", names.down), routes);
}

/// An expert that every token visits.
[[nodiscard]] constexpr ValueId append_shared_expert(BlockBuilder& body, ModelConfig const& config, ValueId normed,
                                                     std::string_view path) {
    return append_gated_mlp(body, config, normed, path, {"shared_gate", "shared_up", "shared_out"});
}

/// The MLP of a layer with experts, or of a dense one; the shared expert is scaled by the sigmoid of its gate (qwen2_moe).
[[nodiscard]] constexpr ValueId append_mixed_mlp(BlockBuilder& body, ModelConfig const& config, ValueId normed) {
    if (!body.has("mlp.experts")) return append_gated_mlp(body, config, normed);
    auto const routed = append_experts(body, config, normed);
    if (!body.has("mlp.shared_expert")) return routed;
    auto const shared = append_shared_expert(body, config, normed, "mlp.shared_expert");
    auto const scale = body.linear(normed, "shared_scale", "mlp.shared_expert_gate");
    return body.add(routed, body.scaled_rows(scale, shared, ActivationKind::sigmoid));
}

/// The program of a family with layers of both kinds.
[[nodiscard]] constexpr BlockProgram mixed_decoder_program(ModelConfig const& config, LlamaLayout const& layout,
                                                           ModuleTree const& tree) {
    return decoder_program(config, layout, tree,
                           [&](BlockBuilder& body, ValueId in) { return append_mixed_mlp(body, config, in); });
}

/// Makes dense_layers the truth for qwen's rule: a layer is dense where mlp_only_layers says so, where the model has no
/// experts, and where its number from 1 is no multiple of decoder_sparse_step.
[[nodiscard]] constexpr Result<> complete_sparse_layers(ModelConfig& config) {
    if (config.decoder_sparse_step < 1) {
        return Error{ErrorCode::invalid_field}
            .at("decoder_sparse_step")
            .because("must be at least 1")
            .got(config.decoder_sparse_step);
    }
    bool has_sparse = false;
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
        if (config.experts == 0 || (layer + 1) % config.decoder_sparse_step != 0) config.dense_layers.insert(layer);
        has_sparse = has_sparse || !config.dense_layers.contains(layer);
    }
    if (!has_sparse) return {};
    return check_experts(config);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
