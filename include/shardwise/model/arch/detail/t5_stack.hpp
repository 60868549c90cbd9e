// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/classic_decoder.hpp>

#include <cstdint>
#include <string_view>

/// T5's encoder and decoder: trees and programs of the two stacks. Class names begin with `prefix`: "T5", or that of a family that
/// copies it.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

[[nodiscard]] constexpr bool is_t5_gated(ModelConfig const& config) {
    return config.own["is_gated_act"] != 0;
}

/// Self-attention or cross-attention, with a table of relative positions or without.
[[nodiscard]] constexpr ModuleId add_t5_attention(ModuleTree& tree, ModelConfig const& config, std::string_view prefix,
                                                  bool has_positions) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const width = config.heads * config.head_dim;
    auto const in = [&](TensorUse use) {
        return part.linear(width, config.hidden_size, false, ShardRule::units(0, config.heads), use);
    };
    auto const out =
        part.linear(config.hidden_size, width, false, ShardRule::units(1, config.heads), TensorUse::attention_output);
    List<Child> children{{"q", in(TensorUse::attention_q)},
                         {"k", in(TensorUse::attention_k)},
                         {"v", in(TensorUse::attention_v)},
                         {"o", out}};
    if (has_positions) {
        children.push_back({"relative_attention_bias", add_relative_bias(part, config)});
    }
    return tree.add(part.name(prefix, "Attention"), children);
}

/// The feed-forward module: wi, or wi_0 (the gate) and wi_1.
[[nodiscard]] constexpr ModuleId add_t5_dense(ModuleTree& tree, ModelConfig const& config, std::string_view prefix) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const width = config.intermediate_size;
    auto const in = part.linear(width, config.hidden_size, false, ShardRule::units(0, width), TensorUse::ffn_up);
    auto const out = part.linear(config.hidden_size, width, false, ShardRule::units(1, width), TensorUse::ffn_down);
    List<Child> children;
    if (is_t5_gated(config)) {
        children.push_back({"wi_0", in});
        children.push_back({"wi_1", in});
    } else {
        children.push_back({"wi", in});
    }
    children.push_back({"wo", out});
    children.push_back({"dropout", part.plain("Dropout")});
    children.push_back({"act", part.plain(activation_class(config.activation))});
    return tree.add(part.name(prefix, is_t5_gated(config) ? "DenseGatedActDense" : "DenseActDense"), children);
}

/// A block: self-attention, in the decoder cross-attention, feed-forward; each with its norm and dropout.
[[nodiscard]] constexpr ModuleId add_t5_block(ModuleTree& tree, ModelConfig const& config, std::string_view prefix,
                                              bool is_decoder, bool has_positions) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const norm = part.norm(part.name(prefix, "LayerNorm"), config.hidden_size);
    auto const dropout = part.plain("Dropout");
    auto const layer = [&](std::string_view class_name, std::string_view name, ModuleId inner) {
        return tree.add(part.name(prefix, class_name), {}, {{name, inner}, {"layer_norm", norm}, {"dropout", dropout}});
    };
    List<Child> layers{numbered(
        0, 1, layer("LayerSelfAttention", "SelfAttention", add_t5_attention(tree, config, prefix, has_positions)))};
    if (is_decoder) {
        layers.push_back(numbered(
            1, 1, layer("LayerCrossAttention", "EncDecAttention", add_t5_attention(tree, config, prefix, false))));
    }
    layers.push_back(
        numbered(is_decoder ? 2 : 1, 1, layer("LayerFF", "DenseReluDense", add_t5_dense(tree, config, prefix))));
    return tree.add(part.name(prefix, "Block"), {}, {{"layer", tree.add("ModuleList", layers)}});
}

/// Which blocks of a stack have tables of relative positions.
enum class T5Tables : std::uint8_t { of_first_block, of_each_block };

/// The number of blocks of a stack.
[[nodiscard]] constexpr std::int64_t t5_blocks(ModelConfig const& config, bool is_decoder) {
    return is_decoder ? config.own["num_decoder_layers"] : config.layers;
}

/// A whole stack; `table` is the embedding that all stacks share.
[[nodiscard]] constexpr ModuleId add_t5_stack(ModuleTree& tree, ModelConfig const& config, std::string_view prefix,
                                              ModuleId table, bool is_decoder, T5Tables tables) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const blocks = t5_blocks(config, is_decoder);
    List<Child> runs{numbered(0, 1, add_t5_block(tree, config, prefix, is_decoder, true), ModuleRole::layer)};
    if (blocks > 1) {
        bool const has_positions = tables == T5Tables::of_each_block;
        runs.push_back(
            numbered(1, blocks - 1, add_t5_block(tree, config, prefix, is_decoder, has_positions), ModuleRole::layer));
    }
    return tree.add(
        part.name(prefix, "Stack"), {},
        {{"embed_tokens", table, ModuleRole::embedding},
         {"block", tree.add("ModuleList", runs)},
         {"final_layer_norm", part.norm(part.name(prefix, "LayerNorm"), config.hidden_size), ModuleRole::norm},
         {"dropout", part.plain("Dropout")}});
}

/// The paths of one sublayer of a block: its norm, and a module of what the norm feeds.
struct T5Sublayer {
    BlockBuilder& body;
    std::string_view layer;
    std::string_view inner;

    [[nodiscard]] constexpr ValueId norm(ValueId in) const {
        return body.norm(in, NormKind::rms, body.path(layer, "layer_norm"));
    }
    [[nodiscard]] constexpr std::string_view at(std::string_view name) const { return body.path(inner, name); }
    [[nodiscard]] constexpr ValueId linear(ValueId in, std::string_view value, std::string_view name) const {
        return body.linear(in, value, at(name));
    }
};

/// The table of relative positions that a block's self-attention reads.
[[nodiscard]] constexpr std::string_view t5_table(bool is_decoder, T5Tables tables) {
    if (tables == T5Tables::of_each_block) return "layer.0.SelfAttention.relative_attention_bias.weight";
    return is_decoder ? "/decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
                      : "/encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
}

/// norm -> q; k and v of `source` (the normed input where there is none) -> attention, whose scores `table` changes -> o, added to
/// the residual.
[[nodiscard]] constexpr ValueId append_t5_attention(T5Sublayer const& layer, ValueId in, ValueId source,
                                                    AttentionShape const& shape, std::string_view table) {
    auto const normed = layer.norm(in);
    if (source == no_value) source = normed;
    auto const q = layer.linear(normed, "q", "q");
    auto const k = layer.linear(source, "k", "k");
    auto const v = layer.linear(source, "v", "v");
    auto const context = layer.body.attention(q, k, v, shape, table);
    return layer.body.add(in, layer.linear(context, "attention_out", "o"));
}

/// norm -> wi (or the gated pair) -> wo, added to the residual.
constexpr void append_t5_dense(T5Sublayer const& layer, ModelConfig const& config, ValueId in) {
    auto const normed = layer.norm(in);
    ValueId activated = no_value;
    if (is_t5_gated(config)) {
        auto const gate = layer.linear(normed, "gate", "wi_0");
        activated = layer.body.gated(gate, layer.linear(normed, "up", "wi_1"), config.activation);
    } else {
        activated = layer.body.activation(layer.linear(normed, "up", "wi"), config.activation);
    }
    (void)layer.body.add(in, layer.linear(activated, "mlp_out", "wo"));
}

/// A block's operations. The keys and values of cross-attention are made from the encoder's output when its cache is filled.
constexpr void write_t5_block(BlockBuilder& body, ModelConfig const& config, bool is_decoder, T5Tables tables) {
    auto shape = plain_attention(config, is_decoder);
    shape.score_scale = 1.0;
    shape.bias_reach = config.own["relative_attention_max_distance"];
    auto hidden = append_t5_attention({body, "layer.0", "layer.0.SelfAttention"}, body.input(), no_value, shape,
                                      t5_table(is_decoder, tables));
    if (!is_decoder) return append_t5_dense({body, "layer.1", "layer.1.DenseReluDense"}, config, hidden);
    shape.is_causal = false;
    shape.is_cross = true;
    shape.bias_reach = 0;
    auto const encoded = body.external("encoder", config.hidden_size);
    hidden = append_t5_attention({body, "layer.1", "layer.1.EncDecAttention"}, hidden, encoded, shape, {});
    append_t5_dense({body, "layer.2", "layer.2.DenseReluDense"}, config, hidden);
}

/// The blocks of a stack in order: embedding, layers, final norm.
constexpr void append_t5_stack(ProgramBuilder& model, ModelConfig const& config, bool is_decoder, T5Tables tables) {
    model.tokens(is_decoder ? "decoder.embed_tokens" : "encoder.embed_tokens");
    model.layers(is_decoder ? "decoder.block" : "encoder.block",
                 [&](BlockBuilder& body) { write_t5_block(body, config, is_decoder, tables); });
    model.norm(is_decoder ? "decoder.final_layer_norm" : "encoder.final_layer_norm", NormKind::rms);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
