// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/model/activation_names.hpp>
#include <shardwise/model/arch/detail/config_checks.hpp>
#include <shardwise/model/arch/detail/label_head.hpp>
#include <shardwise/model/arch/detail/layer_norms.hpp>
#include <shardwise/model/arch/detail/model_class.hpp>
#include <shardwise/model/arch/detail/parts.hpp>
#include <shardwise/model/arch/detail/square_root.hpp>

#include <array>

/// The pre-norm decoder layer with separate q, k, v and a gated MLP that llama made common: tree and program in one
/// place.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The norms of each query and key head, where config.qk_norm says that there are any.
struct HeadNorms {
    std::string_view query = "q_norm";
    std::string_view key = "k_norm";
    /// They are over all heads together (olmo2).
    bool are_wide = false;
    /// They come after the rotation (hunyuan).
    bool follow_rope = false;
    /// Each head has a weight of its own, a row of the norm's (cohere).
    bool have_own_weights = false;
};

/// What differs between families of llama's layout.
struct LlamaLayout {
    /// The prefix of class names: "Llama", "Qwen2".
    std::string_view prefix;
    /// What follows it in the names of the classes that are counted, the usual one first.
    Span<std::string_view const> classes = label_classes;
    /// The whole name of the norms' class where the prefix is not part of it ("LayerNorm").
    std::string_view norm_class{};
    /// The suffixes of the classes of norms, attention and of the model without a head.
    std::string_view norm_suffix = "RMSNorm";
    std::string_view attention_suffix = "Attention";
    std::string_view model_suffix = "Model";
    NormKind norm = NormKind::rms;
    /// The norms around attention and MLP.
    LayerNorms norms{};
    /// They have biases.
    bool has_norm_bias = false;
    /// Attention and MLP read one normed input, before_attention's, and both are added to the residual (cohere).
    bool is_parallel = false;
    /// The MLP is down(act(up)), without a gate (nemotron).
    bool has_gate = true;
    /// config.rotary_dim says how much of a head turns.
    bool has_rotary_dim = false;
    /// Each layer has a rotary embedding of its own (qwen2_moe).
    bool has_layer_rotary = false;
    /// The module of a layer that follows attention, and the whole name of its class where it is not the prefix and "MLP".
    std::string_view mlp = "mlp";
    std::string_view mlp_class{};
    HeadNorms head_norms{};
    /// Logits are divided by config.logit_scale (granite).
    bool divides_logits = false;
    /// Keys of the family's own numbers, empty where it has none: what bends scores (gemma2), whether tokens attend to later ones
    /// (gemma3), whether the head has a bias (phimoe).
    std::string_view score_cap{};
    std::string_view sees_later{};
    std::string_view head_bias{};
};

/// What decoders of this layout complete first: the class and the heads.
[[nodiscard]] constexpr Result<> complete_decoder(ModelConfig& config, LlamaLayout const& layout) {
    if (auto const checked = check_class(config, layout.prefix, layout.classes); !checked) return checked;
    return complete_heads(config);
}

/// The norm around attention and MLP.
[[nodiscard]] constexpr ModuleId add_decoder_norm(PartMaker& part, LlamaLayout const& layout, std::int64_t size) {
    auto const name = layout.norm_class.empty() ? part.name(layout.prefix, layout.norm_suffix) : layout.norm_class;
    return part.norm(name, size, layout.has_norm_bias);
}

/// The usual factor of scores where a GGUF file does not state a family's own: from the width of a head.
constexpr void assume_head_scale(ModelConfig& config) {
    auto const width = config.head_dim > 0 || config.heads < 1 ? config.head_dim : config.hidden_size / config.heads;
    config.query_scale = static_cast<double>(width);
}

/// Attention's geometry for one layer; window 0 sees everything.
[[nodiscard]] constexpr AttentionShape attention_shape(ModelConfig const& config, std::int64_t window = 0) {
    return {.heads = config.heads,
            .kv_heads = config.kv_heads,
            .key_dim = config.head_dim,
            .value_dim = config.head_dim,
            .rope_layout = rope_layout(config),
            .window = window,
            .score_scale = config.query_scale > 0.0 ? 1.0 / square_root(config.query_scale) : config.score_scale,
            .has_slopes = config.alibi};
}

/// The q, k, v and o projections of config's heads; q may make several rows of each head (qwen3_next: a gate as well).
[[nodiscard]] constexpr List<Child> add_projections(PartMaker& part, ModelConfig const& config, bool has_bias,
                                                    bool has_out_bias, std::int64_t rows_of_query = 1) {
    auto const hidden = config.hidden_size;
    auto const width = config.heads * config.head_dim;
    auto const kv_width = config.kv_heads * config.head_dim;
    auto const heads = ShardRule::units(0, config.heads);
    auto const kv_heads = ShardRule::kv(0, config.kv_heads, config.heads);
    return {{"q_proj", part.linear(rows_of_query * width, hidden, has_bias, heads, TensorUse::attention_q)},
            {"k_proj", part.linear(kv_width, hidden, has_bias, kv_heads, TensorUse::attention_k)},
            {"v_proj", part.linear(kv_width, hidden, has_bias, kv_heads, TensorUse::attention_v)},
            {"o_proj",
             part.linear(hidden, width, has_out_bias, ShardRule::units(1, config.heads), TensorUse::attention_output)}};
}

/// self_attn: q, k, v and o projections, biases as configured; per-head norms where qk_norm is set.
[[nodiscard]] constexpr ModuleId add_attention(ModuleTree& tree, ModelConfig const& config, LlamaLayout const& layout) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto children = add_projections(part, config, config.attention_bias, config.attention_out_bias);
    if (config.qk_norm) {
        auto const name = part.name(layout.prefix, layout.norm_suffix);
        auto const norm_of = [&](std::int64_t width, ShardRule const& shard) {
            if (layout.head_norms.are_wide) return part.sharded_norm(name, width, shard);
            if (layout.head_norms.have_own_weights)
                return part.norm_of_heads(name, width / config.head_dim, config.head_dim, shard);
            return part.norm(name, config.head_dim);
        };
        auto const kv_rule = ShardRule::kv(0, config.kv_heads, config.heads);
        children.push_back(
            {layout.head_norms.query, norm_of(config.heads * config.head_dim, ShardRule::units(0, config.heads))});
        children.push_back({layout.head_norms.key, norm_of(config.kv_heads * config.head_dim, kv_rule)});
    }
    if (layout.has_layer_rotary) {
        children.push_back({"rotary_emb", part.rotary(part.name(layout.prefix, "RotaryEmbedding"), config.head_dim)});
    }
    return tree.add(part.name(layout.prefix, layout.attention_suffix), children);
}

/// mlp: gate (where the layout has one), up and down projections of `width`, and the activation.
[[nodiscard]] constexpr ModuleId add_gated_mlp(ModuleTree& tree, ModelConfig const& config, LlamaLayout const& layout,
                                               std::int64_t width, std::string_view class_suffix = "MLP") {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const in =
        part.linear(width, config.hidden_size, config.mlp_bias, ShardRule::units(0, width), TensorUse::ffn_up);
    auto const out =
        part.linear(config.hidden_size, width, config.mlp_bias, ShardRule::units(1, width), TensorUse::ffn_down);
    List<Child> children;
    if (layout.has_gate) children.push_back({"gate_proj", in});
    children.push_back({"up_proj", in});
    children.push_back({"down_proj", out});
    children.push_back({"act_fn", part.activation(activation_class(config.activation), config.activation)});
    return tree.add(layout.mlp_class.empty() ? part.name(layout.prefix, class_suffix) : layout.mlp_class, children);
}

/// The decoder layer: attention, `mlp`, and the norms around them.
[[nodiscard]] constexpr ModuleId add_decoder_layer(ModuleTree& tree, ModelConfig const& config,
                                                   LlamaLayout const& layout, ModuleId attention, ModuleId mlp) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const norm = add_decoder_norm(part, layout, config.hidden_size);
    List<Child> children{{"self_attn", attention}, {layout.mlp, mlp}};
    auto const& norms = layout.norms;
    auto const& second = norms.has_results_last ? norms.before_mlp : norms.after_attention;
    auto const& third = norms.has_results_last ? norms.after_attention : norms.before_mlp;
    for (auto const& name : {norms.before_attention, second, third, norms.after_mlp})
        if (!name.empty()) children.push_back({name, norm});
    return tree.add(part.name(layout.prefix, "DecoderLayer"), children);
}

/// What the model without a head consists of, in order of registration.
struct DecoderParts {
    ModuleId embedding = 0;
    /// The runs of decoder layers.
    List<Child> layers{};
    /// What follows the final norm.
    List<Child> rest{};
};

/// embed_tokens, layers, norm, `rest`, and over them the causal head, tied where configured. The class name ends in
/// "Model" for the model without a head.
constexpr void finish_decoder(ModuleTree& tree, ModelConfig const& config, LlamaLayout const& layout,
                              DecoderParts const& parts) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    tree.keep_whole(part.name(layout.prefix, "DecoderLayer"));
    auto const list = tree.add("ModuleList", parts.layers);
    auto const norm = add_decoder_norm(part, layout, config.hidden_size);
    List<Child> children{
        {"embed_tokens", parts.embedding, ModuleRole::embedding}, {"layers", list}, {"norm", norm, ModuleRole::norm}};
    for (auto const& child : parts.rest) children.push_back(child);
    auto const model = tree.add(part.name(layout.prefix, layout.model_suffix), children);
    if (is_base_class(config)) return tree.set_root(model);
    if (config.labels > 0) return add_label_head(tree, config, "model", model, config.hidden_size);
    bool const has_head_bias = !layout.head_bias.empty() && config.own[layout.head_bias] != 0;
    auto const head = part.linear(config.vocab_size, config.hidden_size, has_head_bias,
                                  ShardRule::units(0, config.vocab_size), TensorUse::head);
    tree.set_root(tree.add(tree.names().join(config.model_class.view()), {},
                           {{"model", model}, {"lm_head", head, ModuleRole::head}}));
    if (config.tie_word_embeddings) tree.tie("model.embed_tokens.weight", "lm_head.weight");
}

/// The same with the usual embedding, and one rotary embedding of `rotary_dim` for all layers.
constexpr void finish_decoder(ModuleTree& tree, ModelConfig const& config, LlamaLayout const& layout,
                              List<Child> const& layers, std::int64_t rotary_dim) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const embedding = part.vocabulary(config.vocab_size, config.hidden_size);
    auto const rotary = part.rotary(part.name(layout.prefix, "RotaryEmbedding"), rotary_dim);
    finish_decoder(tree, config, layout, DecoderParts{embedding, layers, {{"rotary_emb", rotary}}});
}

/// The tree of a family whose layers are all of llama's kind.
[[nodiscard]] constexpr ModuleTree dense_decoder_tree(ModelConfig const& config, LlamaLayout const& layout) {
    ModuleTree tree;
    auto const attention = add_attention(tree, config, layout);
    auto const mlp = add_gated_mlp(tree, config, layout, config.intermediate_size);
    auto const layer = add_decoder_layer(tree, config, layout, attention, mlp);
    auto const rotary = layout.has_rotary_dim ? config.rotary_dim : config.head_dim;
    finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)}, rotary);
    return tree;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
