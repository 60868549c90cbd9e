// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/classic_decoder.hpp>
#include <shardwise/model/gguf_default.hpp>
#include <shardwise/op/relative_buckets.hpp>

#include <array>
#include <string_view>

/// The bidirectional encoder that bert and roberta share: norms after the blocks, three embedding tables, no KV cache.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// `position_embedding_type`: positions are added to the embeddings, or attention takes distances.
inline constexpr std::array<std::string_view, 3> position_kinds{"absolute", "relative_key", "relative_key_query"};

/// What differs between the two families.
struct BertLayout {
    /// The prefix of class names: "Bert".
    std::string_view prefix;
    /// Position 0 is the row after the padding id's, and padding takes no position but that row (roberta).
    bool has_padding_row = false;
};

/// True where positions are added to the embeddings; else attention takes distances.
[[nodiscard]] constexpr bool has_absolute_positions(ModelConfig const& config) {
    constexpr std::string_view key = "position_embedding_type";
    return !config.own.has(key) || config.own[key] == 0;
}

/// The modules of a layer where they are not bert's (distilbert, mpnet).
struct EncoderNames {
    std::string_view query = "attention.self.query";
    std::string_view key = "attention.self.key";
    std::string_view value = "attention.self.value";
    std::string_view out = "attention.output.dense";
    std::string_view middle_norm = "attention.output.LayerNorm";
    std::string_view up = "intermediate.dense";
    std::string_view down = "output.dense";
    std::string_view last_norm = "output.LayerNorm";
    /// A table that changes the scores, where the tree has it: of relative positions, or with `has_biases` of biases by distance.
    std::string_view scores = "attention.self.distance_embedding.weight";
    bool has_biases = false;
};

/// The checks and derived sizes of encoders.
[[nodiscard]] constexpr Result<> complete_encoder(ModelConfig& config, ConfigKeys const& keys = {}) {
    config.kv_heads = config.heads;
    if (auto const ok = check_sizes(config, keys); !ok) return ok;
    if (auto const ok = check_size("max_position_embeddings", config.max_positions); !ok) return ok;
    config.head_dim = config.hidden_size / config.heads;
    config.attention_bias = config.attention_out_bias = config.mlp_bias = true;
    return {};
}

/// The same for those with token types.
[[nodiscard]] constexpr Result<> complete_bert(ModelConfig& config) {
    if (auto const ok = check_size("type_vocab_size", config.own["type_vocab_size"]); !ok) return ok;
    return complete_encoder(config);
}

/// A GGUF file says by its table alone how many types of tokens there are.
inline void infer_token_types(GgufTensorNames const& names, ModelConfig& config) {
    if (auto const rows = names.rows_of("token_types.weight"); rows > 0) config.own.set("type_vocab_size", rows);
}

/// A buffer of the numbers of all positions, which files do not store.
[[nodiscard]] constexpr Tensor position_indices(ModelConfig const& config, std::string_view name = "position_ids") {
    return {
        .name = name, .shape = {1, config.max_positions}, .dtype = Dtype::i64, .kind = TensorKind::transient_buffer};
}

/// embeddings: tables of tokens, positions and token types, a norm, and the index buffers that files do not store.
[[nodiscard]] constexpr ModuleId add_bert_embeddings(ModuleTree& tree, ModelConfig const& config,
                                                     BertLayout const& layout) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    return tree.add(part.name(layout.prefix, "Embeddings"),
                    {position_indices(config), position_indices(config, "token_type_ids")},
                    {{"word_embeddings", part.vocabulary(config.vocab_size, config.hidden_size)},
                     {"position_embeddings", part.table(config.max_positions, config.hidden_size)},
                     {"token_type_embeddings", part.table(config.own["type_vocab_size"], config.hidden_size)},
                     {"LayerNorm", add_layer_norm(part, config.hidden_size)},
                     {"dropout", part.plain("Dropout")}});
}

/// One encoder layer.
[[nodiscard]] constexpr ModuleId add_bert_layer(ModuleTree& tree, ModelConfig const& config, BertLayout const& layout) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const hidden = config.hidden_size;
    auto const width = config.intermediate_size;
    auto const norm = add_layer_norm(part, hidden);
    auto const dropout = part.plain("Dropout");
    auto const in = [&](TensorUse use) {
        return part.linear(hidden, hidden, true, ShardRule::units(0, config.heads), use);
    };
    List<Child> self{{"query", in(TensorUse::attention_q)},
                     {"key", in(TensorUse::attention_k)},
                     {"value", in(TensorUse::attention_v)},
                     {"dropout", dropout}};
    if (!has_absolute_positions(config)) {
        self.push_back({"distance_embedding", part.table(2 * config.max_positions - 1, config.head_dim)});
    }
    auto const attended =
        part.linear(hidden, hidden, true, ShardRule::units(1, config.heads), TensorUse::attention_output);
    auto const attention =
        tree.add(part.name(layout.prefix, "Attention"), {},
                 {{"self", tree.add(part.name(layout.prefix, "SdpaSelfAttention"), self)},
                  {"output", tree.add(part.name(layout.prefix, "SelfOutput"), {},
                                      {{"dense", attended}, {"LayerNorm", norm}, {"dropout", dropout}})}});
    auto const up = part.linear(width, hidden, true, ShardRule::units(0, width), TensorUse::ffn_up);
    auto const down = part.linear(hidden, width, true, ShardRule::units(1, width), TensorUse::ffn_down);
    auto const activation = part.plain(activation_class(config.activation));
    return tree.add(part.name(layout.prefix, "Layer"), {},
                    {{"attention", attention},
                     {"intermediate", tree.add(part.name(layout.prefix, "Intermediate"), {},
                                               {{"dense", up}, {"intermediate_act_fn", activation}})},
                     {"output", tree.add(part.name(layout.prefix, "Output"), {},
                                         {{"dense", down}, {"LayerNorm", norm}, {"dropout", dropout}})}});
}

/// The headless model, with its pooler where asked.
[[nodiscard]] constexpr ModuleId add_bert_model(ModuleTree& tree, ModelConfig const& config, BertLayout const& layout,
                                                bool has_pooler) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const embeddings = add_bert_embeddings(tree, config, layout);
    auto const layer = add_bert_layer(tree, config, layout);
    auto const list = tree.add("ModuleList", {}, {numbered(0, config.layers, layer, ModuleRole::layer)});
    List<Child> children{{"embeddings", embeddings, ModuleRole::embedding},
                         {"encoder", tree.add(part.name(layout.prefix, "Encoder"), {}, {{"layer", list}})}};
    if (has_pooler) {
        auto const dense = part.linear(config.hidden_size, config.hidden_size, true);
        children.push_back(
            {"pooler",
             tree.add(part.name(layout.prefix, "Pooler"), {}, {{"dense", dense}, {"activation", part.plain("Tanh")}}),
             ModuleRole::head});
    }
    tree.keep_whole(part.name(layout.prefix, "Embeddings"));
    tree.keep_whole(part.name(layout.prefix, "Layer"));
    return tree.add(part.name(layout.prefix, "Model"), children);
}

/// The embeddings' block: tokens + types (+ positions) -> norm.
constexpr void append_bert_embeddings(ProgramBuilder& model, ModelConfig const& config, BertLayout const& layout) {
    model.ids_block("embeddings", [&](BlockBuilder& body) {
        auto sum = body.embedding(body.input(), "word_embeddings");
        if (body.has("token_type_embeddings"))
            sum = body.add(sum, body.table(body.input(), TableIndex::token_type, "token_type_embeddings"));
        if (has_absolute_positions(config)) {
            auto const padding = layout.has_padding_row ? config.own["pad_token_id"] : -1;
            sum = body.add(sum,
                           body.table(body.input(), TableIndex::position, "position_embeddings", padding + 1, padding));
        }
        (void)body.layer_norm(sum, "LayerNorm");
    });
}

/// One encoder layer: attention over the whole sequence, norms after the residual sums.
constexpr void write_encoder_layer(BlockBuilder& body, ModelConfig const& config, EncoderNames const& names) {
    auto const in = body.input();
    auto const q = body.linear(in, "q", names.query);
    auto const k = body.linear(in, "k", names.key);
    auto const v = body.linear(in, "v", names.value);
    auto shape = plain_attention(config, false);
    if (names.has_biases) shape.bias_reach = relative_reach;
    auto const context = body.attention(q, k, v, shape, names.scores);
    auto const middle =
        body.layer_norm(body.add(in, body.linear(context, "attention_out", names.out)), names.middle_norm);
    auto const mlp = append_mlp(body, config, middle, names.up, names.down);
    (void)body.layer_norm(body.add(middle, mlp), names.last_norm);
}

/// Embeddings, layers, and where the class has one the pooler: the first token through a dense layer and tanh.
constexpr void append_encoder(ProgramBuilder& model, ModelConfig const& config, BertLayout const& layout,
                              EncoderNames const& names = {}, std::string_view layers = "encoder.layer") {
    append_bert_embeddings(model, config, layout);
    model.layers(layers, [&](BlockBuilder& body) { write_encoder_layer(body, config, names); });
    if (!model.has("pooler")) return;
    model.block("pooler", [](BlockBuilder& body) {
        auto const dense = body.linear(body.first_token(body.input()), "pooled", "dense");
        (void)body.activation(dense, ActivationKind::tanh);
    });
}

/// The block of a masked language model's head: every token through dense, activation and norm to the scores of the vocabulary.
constexpr void append_masked_head(ProgramBuilder& model, std::string_view module, std::string_view dense,
                                  std::string_view norm, ActivationKind activation) {
    model.head_block(module, [&](BlockBuilder& body) {
        auto const transformed = body.linear(body.input(), "transformed", dense);
        (void)body.logits(body.layer_norm(body.activation(transformed, activation), norm), "decoder");
    });
}

/// The decoder of a masked head: [vocab, hidden] with a bias, tied to the head's own bias in any case.
[[nodiscard]] constexpr ModuleId add_masked_decoder(PartMaker& part, ModelConfig const& config) {
    return part.linear(config.vocab_size, config.hidden_size, true, ShardRule::units(0, config.vocab_size),
                       TensorUse::head);
}

/// Makes the class that is counted out of the base model and its classifier: a linear layer, or roberta's two for texts, a module
/// of the class `dense_head`.
constexpr void add_classifier(ModuleTree& tree, ModelConfig const& config, std::string_view base, ModuleId model,
                              std::string_view dense_head = {}) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const scores = part.linear(config.labels, config.hidden_size, true, {}, TensorUse::head);
    List<Child> children{{base, model}};
    if (is_for(config, "ForQuestionAnswering")) {
        children.push_back({"qa_outputs", scores, ModuleRole::head});
    } else if (!dense_head.empty() && is_for(config, "ForSequenceClassification")) {
        auto const dense = part.linear(config.hidden_size, config.hidden_size, true);
        auto const head =
            tree.add(dense_head, {}, {{"dense", dense}, {"dropout", part.plain("Dropout")}, {"out_proj", scores}});
        children.push_back({"classifier", head, ModuleRole::head});
    } else {
        children.push_back({"dropout", part.plain("Dropout")});
        children.push_back({"classifier", scores, ModuleRole::head});
    }
    tree.set_root(tree.add(tree.names().join(config.model_class.view()), children));
}

/// The classifier's block: texts are judged by what the pooler makes of their first token, or by that token, questions and tokens
/// token by token.
constexpr void append_classifier(ProgramBuilder& model, ModelConfig const& config) {
    bool const is_of_text = is_for(config, "ForSequenceClassification") || is_for(config, "ForMultipleChoice");
    bool const is_pooled = model.has("pooler");
    auto const write = [&](BlockBuilder& body) {
        auto in = is_of_text && !is_pooled ? body.first_token(body.input()) : body.input();
        bool const is_dense = body.has("dense");
        if (is_dense) in = body.activation(body.linear(in, "dense", "dense"), ActivationKind::tanh);
        (void)body.linear(in, "scores", is_dense ? "out_proj" : "");
    };
    model.head_block("qa_outputs", write);
    model.head_block("classifier", write, is_pooled ? Rows::sequences : Rows::tokens);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
