// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>

/// The Mixture-of-Experts MLP with one module per expert that the qwen families and mixtral share.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What the three linear layers of an expert are called.
struct ExpertNames {
    std::string_view gate;
    std::string_view up;
    std::string_view down;
};

/// The names of the parameters that one sparse MLP reads, relative to the layer; `*` stands for every expert.
struct SparseMlpNames {
    std::string_view router = "mlp.gate.weight";
    ExpertNames experts{"mlp.experts.*.gate_proj.weight", "mlp.experts.*.up_proj.weight",
                        "mlp.experts.*.down_proj.weight"};
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
[[nodiscard]] constexpr ValueId append_experts(BodyBuilder& body, ModelConfig const& config, ValueId normed,
                                               SparseMlpNames const& names) {
    auto const width = config.expert_intermediate_size;
    auto const split = LinearSplit::column(width);
    auto const scores = body.linear(normed, "router", names.router, config.experts);
    auto const routes = body.route(scores, config.experts, config.experts_per_token);
    auto const gate = body.experts(normed, routes, "gate", names.experts.gate, width, config.experts,
                                   config.experts_per_token, split);
    auto const up =
        body.experts(normed, routes, "up", names.experts.up, width, config.experts, config.experts_per_token, split);
    auto const activated = body.gated(gate, up, config.activation);
    auto const down = body.experts(activated, routes, "experts_out", names.experts.down, config.hidden_size,
                                   config.experts, config.experts_per_token, LinearSplit::row());
    return body.combine(down, routes, config.experts, config.experts_per_token);
}

/// The shared expert that every token visits, scaled by the sigmoid of its gate (qwen2_moe).
[[nodiscard]] constexpr ValueId append_shared_expert(BodyBuilder& body, ModelConfig const& config, ValueId normed) {
    auto const width = config.shared_expert_intermediate_size;
    auto const split = LinearSplit::column(width);
    auto const gate = body.linear(normed, "shared_gate", "mlp.shared_expert.gate_proj.weight", width, split);
    auto const up = body.linear(normed, "shared_up", "mlp.shared_expert.up_proj.weight", width, split);
    auto const activated = body.gated(gate, up, config.activation);
    auto const down = body.linear(activated, "shared_out", "mlp.shared_expert.down_proj.weight", config.hidden_size,
                                  LinearSplit::row());
    auto const scale = body.linear(normed, "shared_scale", "mlp.shared_expert_gate.weight", 1);
    return body.scaled_rows(scale, down, ActivationKind::sigmoid);
}

/// The program of a family with layers of both kinds.
[[nodiscard]] constexpr BlockProgram mixed_decoder_program(ModelConfig const& config, LlamaLayout const& layout) {
    return decoder_program(config, layout, [&](LayerKind const& kind) {
        return decoder_body(
            config, layout,
            [&](BodyBuilder& body, ValueId in) { return append_attention(body, config, layout, in, kind); },
            [&](BodyBuilder& body, ValueId in) {
                if (kind.is_dense) return append_gated_mlp(body, config, in, config.intermediate_size);
                auto const routed = append_experts(body, config, in, {});
                if (config.shared_expert_intermediate_size == 0) return routed;
                return body.add(routed, append_shared_expert(body, config, in));
            });
    });
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
