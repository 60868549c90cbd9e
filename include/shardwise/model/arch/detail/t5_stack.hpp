// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/classic_decoder.hpp>

/// T5's encoder and decoder: trees and programs of the two stacks.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Self-attention or cross-attention; the first block of a stack holds the table of relative positions.
[[nodiscard]] constexpr ModuleId add_t5_attention(ModuleTree& tree, ModelConfig const& config, bool has_positions) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const width = config.heads * config.head_dim;
    auto const in = part.linear(width, config.hidden_size, false, ShardRule::units(0, config.heads));
    auto const out = part.linear(config.hidden_size, width, false, ShardRule::units(1, config.heads));
    List<Child> children{{"q", in}, {"k", in}, {"v", in}, {"o", out}};
    if (has_positions) {
        auto const table =
            part.tensors().table(config.position_buckets, config.heads, ShardRule::units(1, config.heads));
        children.push_back({"relative_attention_bias", tree.add("Embedding", {table})});
    }
    return tree.add("T5Attention", children);
}

/// The feed-forward module: wi, or wi_0 (the gate) and wi_1.
[[nodiscard]] constexpr ModuleId add_t5_dense(ModuleTree& tree, ModelConfig const& config) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const width = config.intermediate_size;
    auto const in = part.linear(width, config.hidden_size, false, ShardRule::units(0, width));
    auto const out = part.linear(config.hidden_size, width, false, ShardRule::units(1, width));
    List<Child> children;
    if (config.gated_mlp) {
        children.push_back({"wi_0", in});
        children.push_back({"wi_1", in});
    } else {
        children.push_back({"wi", in});
    }
    children.push_back({"wo", out});
    children.push_back({"dropout", part.plain("Dropout")});
    children.push_back({"act", part.plain(activation_class(config.activation))});
    return tree.add(config.gated_mlp ? "T5DenseGatedActDense" : "T5DenseActDense", children);
}

/// A block: self-attention, in the decoder cross-attention, feed-forward; each with its norm and dropout.
[[nodiscard]] constexpr ModuleId add_t5_block(ModuleTree& tree, ModelConfig const& config, bool is_decoder,
                                              bool has_positions) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const norm = part.norm("T5LayerNorm", config.hidden_size);
    auto const dropout = part.plain("Dropout");
    auto const layer = [&](std::string_view class_name, std::string_view name, ModuleId inner) {
        return tree.add(class_name, {}, {{name, inner}, {"layer_norm", norm}, {"dropout", dropout}});
    };
    List<Child> layers{
        numbered(0, 1, layer("T5LayerSelfAttention", "SelfAttention", add_t5_attention(tree, config, has_positions)))};
    if (is_decoder) {
        layers.push_back(
            numbered(1, 1, layer("T5LayerCrossAttention", "EncDecAttention", add_t5_attention(tree, config, false))));
    }
    layers.push_back(numbered(is_decoder ? 2 : 1, 1, layer("T5LayerFF", "DenseReluDense", add_t5_dense(tree, config))));
    return tree.add("T5Block", {}, {{"layer", tree.add("ModuleList", layers)}});
}

/// The number of blocks of a stack.
[[nodiscard]] constexpr std::int64_t t5_blocks(ModelConfig const& config, bool is_decoder) {
    return is_decoder ? config.decoder_layers : config.layers;
}

/// A whole stack; `table` is the embedding that all stacks share.
[[nodiscard]] constexpr ModuleId add_t5_stack(ModuleTree& tree, ModelConfig const& config, ModuleId table,
                                              bool is_decoder) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const blocks = t5_blocks(config, is_decoder);
    List<Child> runs{numbered(0, 1, add_t5_block(tree, config, is_decoder, true), ModuleRole::layer)};
    if (blocks > 1) {
        runs.push_back(numbered(1, blocks - 1, add_t5_block(tree, config, is_decoder, false), ModuleRole::layer));
    }
    return tree.add("T5Stack", {},
                    {{"embed_tokens", table, ModuleRole::embedding},
                     {"block", tree.add("ModuleList", runs)},
                     {"final_layer_norm", part.norm("T5LayerNorm", config.hidden_size), ModuleRole::norm},
                     {"dropout", part.plain("Dropout")}});
}

/// The names of one attention within a block.
struct T5AttentionNames {
    std::string_view norm;
    std::string_view q;
    std::string_view k;
    std::string_view v;
    std::string_view o;
    std::string_view positions{};
};

/// norm -> q; k and v of `source` (the normed input where there is none) -> attention -> o, added to the residual.
[[nodiscard]] constexpr ValueId append_t5_attention(BodyBuilder& body, ModelConfig const& config, ValueId in,
                                                    ValueId source, T5AttentionNames const& names,
                                                    AttentionShape const& shape) {
    auto const width = config.heads * config.head_dim;
    auto const split = LinearSplit::column(config.heads);
    auto const normed = body.norm(in, NormKind::rms, names.norm);
    if (source == no_value) source = normed;
    auto const q = body.linear(normed, "q", names.q, width, split);
    auto const k = body.linear(source, "k", names.k, width, split);
    auto const v = body.linear(source, "v", names.v, width, split);
    auto const context = body.attention(q, k, v, shape, names.positions);
    return body.add(in, body.linear(context, "attention_out", names.o, config.hidden_size, LinearSplit::row()));
}

/// norm -> wi (or the gated pair) -> wo, added to the residual; the decoder's is layer 2 of its block.
constexpr void append_t5_dense(BodyBuilder& body, ModelConfig const& config, ValueId in, bool is_decoder) {
    auto const pick = [&](std::string_view decoder, std::string_view encoder) {
        return is_decoder ? decoder : encoder;
    };
    auto const split = LinearSplit::column(config.intermediate_size);
    auto const up = [&](ValueId normed, std::string_view value, std::string_view weight) {
        return body.linear(normed, value, weight, config.intermediate_size, split);
    };
    auto const normed = body.norm(in, NormKind::rms, pick("layer.2.layer_norm.weight", "layer.1.layer_norm.weight"));
    ValueId activated = no_value;
    if (config.gated_mlp) {
        auto const gate =
            up(normed, "gate", pick("layer.2.DenseReluDense.wi_0.weight", "layer.1.DenseReluDense.wi_0.weight"));
        auto const value =
            up(normed, "up", pick("layer.2.DenseReluDense.wi_1.weight", "layer.1.DenseReluDense.wi_1.weight"));
        activated = body.gated(gate, value, config.activation);
    } else {
        auto const value =
            up(normed, "up", pick("layer.2.DenseReluDense.wi.weight", "layer.1.DenseReluDense.wi.weight"));
        activated = body.activation(value, config.activation);
    }
    auto const weight = pick("layer.2.DenseReluDense.wo.weight", "layer.1.DenseReluDense.wo.weight");
    (void)body.add(in, body.linear(activated, "mlp_out", weight, config.hidden_size, LinearSplit::row()));
}

/// A block's operations. All blocks take the relative positions of the first, which names their table. The keys and
/// values of cross-attention are made from the encoder's output when its cache is filled.
[[nodiscard]] constexpr BlockBody t5_block_body(ModelConfig const& config, bool is_decoder, bool has_positions) {
    BodyBuilder body(config.hidden_size);
    auto shape = plain_attention(config, is_decoder);
    auto hidden = append_t5_attention(
        body, config, body.input(), no_value,
        {"layer.0.layer_norm.weight", "layer.0.SelfAttention.q.weight", "layer.0.SelfAttention.k.weight",
         "layer.0.SelfAttention.v.weight", "layer.0.SelfAttention.o.weight",
         has_positions ? "layer.0.SelfAttention.relative_attention_bias.weight" : std::string_view{}},
        shape);
    if (is_decoder) {
        shape.is_causal = false;
        shape.is_cross = true;
        hidden = append_t5_attention(
            body, config, hidden, body.external("encoder", config.hidden_size),
            {"layer.1.layer_norm.weight", "layer.1.EncDecAttention.q.weight", "layer.1.EncDecAttention.k.weight",
             "layer.1.EncDecAttention.v.weight", "layer.1.EncDecAttention.o.weight"},
            shape);
    }
    append_t5_dense(body, config, hidden, is_decoder);
    return std::move(body).finish();
}

/// The blocks of a stack in order: embedding, layers, final norm.
constexpr void append_t5_stack(BlockProgram& program, ModelConfig const& config, bool is_decoder) {
    append_token_block(program, config, is_decoder ? "decoder.embed_tokens" : "encoder.embed_tokens",
                       config.hidden_size);
    auto const module = std::string_view{is_decoder ? "decoder.block" : "encoder.block"};
    auto const blocks = t5_blocks(config, is_decoder);
    program.append_layers(module, 0, 1, program.add(t5_block_body(config, is_decoder, true)));
    if (blocks > 1) {
        program.append_layers(module, 1, blocks - 1, program.add(t5_block_body(config, is_decoder, false)));
    }
    BodyBuilder body(config.hidden_size);
    (void)body.norm(body.input(), NormKind::rms, "weight");
    program.append(ModuleRole::norm, is_decoder ? "decoder.final_layer_norm" : "encoder.final_layer_norm",
                   program.add(std::move(body).finish()));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
