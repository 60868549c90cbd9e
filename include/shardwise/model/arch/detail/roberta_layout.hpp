// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/bert_layout.hpp>
#include <shardwise/model/field.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

/// What roberta and xlm-roberta share beyond bert's encoder: heads, classifiers, GGUF's names.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The encoder's name in models with a head.
inline constexpr std::string_view roberta_base = "roberta";

/// The config's fields; `vocabulary` is the family's size where a config has none.
[[nodiscard]] constexpr auto roberta_fields(std::int64_t vocabulary) {
    return std::array{
        positive_field("vocab_size", &ModelConfig::vocab_size, vocabulary).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 768).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 3072).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 12).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 12).in_gguf("attention.head_count"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 512).in_gguf("context_length"),
        positive_field("type_vocab_size", 2),
        natural_field("pad_token_id", 1),
        choice_field("position_embedding_type", position_kinds),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        real_field("layer_norm_eps", &ModelConfig::norm_epsilon, 1e-12).in_gguf("attention.layer_norm_epsilon"),
        activation_field("hidden_act", ActivationKind::gelu),
        refused_flag("add_cross_attention", "adds layers of cross-attention, which are not described"),
    };
}

/// GGUF's positions begin at the first row.
inline constexpr std::array gguf_roberta_defaults{
    GgufDefault(
        "pad_token_id", [](ModelConfig& config) { config.own.set("pad_token_id", -1); },
        "llama.cpp 0c1e570, convert_hf_to_gguf.py: _position_offset rows are cut off"),
};

/// GGUF stores the encoder without a head.
inline constexpr std::array gguf_roberta{
    NameAlias{"token_embd.weight", "roberta.embeddings.word_embeddings.weight"},
    NameAlias{"position_embd.weight", "roberta.embeddings.position_embeddings.weight"},
    NameAlias{"token_types.weight", "roberta.embeddings.token_type_embeddings.weight"},
    NameAlias{"token_embd_norm.weight", "roberta.embeddings.LayerNorm.weight"},
    NameAlias{"token_embd_norm.bias", "roberta.embeddings.LayerNorm.bias"},
    NameAlias{"blk.{}.attn_q.weight", "roberta.encoder.layer.{}.attention.self.query.weight"},
    NameAlias{"blk.{}.attn_q.bias", "roberta.encoder.layer.{}.attention.self.query.bias"},
    NameAlias{"blk.{}.attn_k.weight", "roberta.encoder.layer.{}.attention.self.key.weight"},
    NameAlias{"blk.{}.attn_k.bias", "roberta.encoder.layer.{}.attention.self.key.bias"},
    NameAlias{"blk.{}.attn_v.weight", "roberta.encoder.layer.{}.attention.self.value.weight"},
    NameAlias{"blk.{}.attn_v.bias", "roberta.encoder.layer.{}.attention.self.value.bias"},
    NameAlias{"blk.{}.attn_output.weight", "roberta.encoder.layer.{}.attention.output.dense.weight"},
    NameAlias{"blk.{}.attn_output.bias", "roberta.encoder.layer.{}.attention.output.dense.bias"},
    NameAlias{"blk.{}.attn_output_norm.weight", "roberta.encoder.layer.{}.attention.output.LayerNorm.weight"},
    NameAlias{"blk.{}.attn_output_norm.bias", "roberta.encoder.layer.{}.attention.output.LayerNorm.bias"},
    NameAlias{"blk.{}.ffn_up.weight", "roberta.encoder.layer.{}.intermediate.dense.weight"},
    NameAlias{"blk.{}.ffn_up.bias", "roberta.encoder.layer.{}.intermediate.dense.bias"},
    NameAlias{"blk.{}.ffn_down.weight", "roberta.encoder.layer.{}.output.dense.weight"},
    NameAlias{"blk.{}.ffn_down.bias", "roberta.encoder.layer.{}.output.dense.bias"},
    NameAlias{"blk.{}.layer_output_norm.weight", "roberta.encoder.layer.{}.output.LayerNorm.weight"},
    NameAlias{"blk.{}.layer_output_norm.bias", "roberta.encoder.layer.{}.output.LayerNorm.bias"},
};

[[nodiscard]] constexpr bool has_roberta_pooler(ModelConfig const& config) {
    return is_base_class(config) || is_for(config, "ForMultipleChoice");
}

/// The tree of the counted class.
[[nodiscard]] constexpr ModuleTree roberta_tree(ModelConfig const& config, BertLayout const& layout) {
    ModuleTree tree;
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const model = add_bert_model(tree, config, layout, has_roberta_pooler(config));
    tree.set_root(model);
    if (!is_base_class(config)) {
        tree.keep_whole(part.name(layout.prefix, "SelfAttention"));
        tree.keep_whole(part.name(layout.prefix, "SdpaSelfAttention"));
    }
    if (config.labels > 0)
        add_classifier(tree, config, roberta_base, model, part.name(layout.prefix, "ClassificationHead"));
    if (!is_for(config, "ForMaskedLM")) return tree;
    auto const head = tree.add(part.name(layout.prefix, "LMHead"),
                               {part.tensors().bias(config.vocab_size, ShardRule::units(0, config.vocab_size))},
                               {{"dense", part.linear(config.hidden_size, config.hidden_size, true)},
                                {"layer_norm", add_layer_norm(part, config.hidden_size)},
                                {"decoder", add_masked_decoder(part, config)}});
    tree.set_root(tree.add(part.name(layout.prefix, "ForMaskedLM"), {},
                           {{roberta_base, model}, {"lm_head", head, ModuleRole::head}}));
    if (config.tie_word_embeddings) tree.tie("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight");
    tree.tie("lm_head.bias", "lm_head.decoder.bias");
    return tree;
}

/// The program of the counted class.
[[nodiscard]] constexpr BlockProgram roberta_program(ModelConfig const& config, BertLayout const& layout,
                                                     ModuleTree const& tree) {
    ProgramBuilder model(tree, roberta_base);
    append_encoder(model, config, layout);
    append_classifier(model, config);
    append_masked_head(model, "lm_head", "dense", "layer_norm", ActivationKind::gelu);
    return std::move(model).finish();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
