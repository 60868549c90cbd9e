#pragma once

#include <shardwise/model/arch/detail/parts.hpp>

/// The pre-norm decoder layer with separate q, k, v and a gated MLP that llama made common: tree and program in one place.
namespace shardwise::inline v0::detail {

/// What differs between families of llama's layout.
struct LlamaLayout {
    /// The prefix of class names: "Llama", "Qwen2".
    std::string_view prefix;
    /// The suffix of the norm's class: "RMSNorm".
    std::string_view norm_suffix = "RMSNorm";
    /// The class of the MLP's activation module.
    std::string_view activation_class = "SiLUActivation";
    NormKind norm = NormKind::rms;
};

/// Attention's geometry for one layer; window 0 sees everything.
[[nodiscard]] constexpr AttentionShape attention_shape(ModelConfig const& config, std::int64_t window = 0) {
    return {.heads = config.heads, .kv_heads = config.kv_heads, .key_dim = config.head_dim, .value_dim = config.head_dim,
            .window = window};
}

/// self_attn: q, k, v and o projections, biases as configured; per-head norms where qk_norm is set.
[[nodiscard]] constexpr ModuleId add_attention(ModuleTree& tree, ModelConfig const& config, LlamaLayout const& layout) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const q_width = config.heads * config.head_dim;
    auto const kv_width = config.kv_heads * config.head_dim;
    auto const q = part.linear(q_width, config.hidden_size, config.attention_bias, ShardRule::units(0, config.heads));
    auto const kv = part.linear(kv_width, config.hidden_size, config.attention_bias,
                                ShardRule::kv(0, config.kv_heads, config.heads));
    auto const o = part.linear(config.hidden_size, q_width, config.attention_out_bias, ShardRule::units(1, config.heads));
    std::vector<Child> children{{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}, {"o_proj", o}};
    if (config.qk_norm) {
        auto const norm = part.norm(part.name(layout.prefix, layout.norm_suffix), config.head_dim);
        children.push_back({"q_norm", norm});
        children.push_back({"k_norm", norm});
    }
    return tree.add(part.name(layout.prefix, "Attention"), children);
}

/// mlp: gate, up and down projections of `width`, and the activation.
[[nodiscard]] constexpr ModuleId add_gated_mlp(ModuleTree& tree, ModelConfig const& config, LlamaLayout const& layout,
                                               std::int64_t width, std::string_view class_suffix = "MLP") {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const in = part.linear(width, config.hidden_size, config.mlp_bias, ShardRule::units(0, width));
    auto const out = part.linear(config.hidden_size, width, config.mlp_bias, ShardRule::units(1, width));
    return tree.add(part.name(layout.prefix, class_suffix), {},
                    {{"gate_proj", in}, {"up_proj", in}, {"down_proj", out}, {"act_fn", part.plain(layout.activation_class)}});
}

/// The decoder layer: attention, `mlp`, and the two norms before them.
[[nodiscard]] constexpr ModuleId add_decoder_layer(ModuleTree& tree, ModelConfig const& config, LlamaLayout const& layout,
                                                   ModuleId attention, ModuleId mlp) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const norm = part.norm(part.name(layout.prefix, layout.norm_suffix), config.hidden_size);
    return tree.add(part.name(layout.prefix, "DecoderLayer"), {},
                    {{"self_attn", attention}, {"mlp", mlp}, {"input_layernorm", norm}, {"post_attention_layernorm", norm}});
}

/// embed_tokens, layers, norm, rotary_emb, and over them the causal head, tied where configured. `layers` lists the runs of
/// decoder layers; the class name ends in "Model" for the model without a head.
constexpr void finish_decoder(ModuleTree& tree, ModelConfig const& config, LlamaLayout const& layout,
                              std::vector<Child> const& layers, std::int64_t rotary_dim) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const decoder_layer = part.name(layout.prefix, "DecoderLayer");
    tree.keep_whole(decoder_layer);
    auto const embedding = part.vocabulary(config.vocab_size, config.hidden_size);
    auto const list = tree.add("ModuleList", layers);
    auto const norm = part.norm(part.name(layout.prefix, layout.norm_suffix), config.hidden_size);
    auto const rotary = part.rotary(part.name(layout.prefix, "RotaryEmbedding"), rotary_dim);
    bool const has_head = !is_base_class(config);
    auto const model = tree.add(part.name(layout.prefix, "Model"), {},
                                {{"embed_tokens", embedding, ModuleRole::embedding},
                                 {"layers", list},
                                 {"norm", norm, ModuleRole::norm},
                                 {"rotary_emb", rotary}});
    if (!has_head) return tree.set_root(model);
    auto const head = part.linear(config.vocab_size, config.hidden_size, false, ShardRule::units(0, config.vocab_size),
                                  TensorUse::head);
    tree.set_root(tree.add(part.name(layout.prefix, "ForCausalLM"), {},
                           {{"model", model}, {"lm_head", head, ModuleRole::head}}));
    if (config.tie_word_embeddings) tree.tie("model.embed_tokens.weight", "lm_head.weight");
}

/// normed -> q, k, v -> rope -> attention -> o, added to the residual.
[[nodiscard]] constexpr ValueId append_attention(BodyBuilder& body, ModelConfig const& config, LlamaLayout const& layout,
                                                 ValueId normed, std::int64_t window) {
    auto const shape = attention_shape(config, window);
    auto const bias = [&](std::string_view name) { return config.attention_bias ? name : std::string_view{}; };
    auto const q_split = LinearSplit::column(config.heads);
    auto const kv_split = LinearSplit::column(config.kv_heads, config.heads);
    auto q = body.linear(normed, "q", "self_attn.q_proj.weight", config.heads * config.head_dim, q_split,
                         bias("self_attn.q_proj.bias"));
    auto k = body.linear(normed, "k", "self_attn.k_proj.weight", config.kv_heads * config.head_dim, kv_split,
                         bias("self_attn.k_proj.bias"));
    auto const v = body.linear(normed, "v", "self_attn.v_proj.weight", config.kv_heads * config.head_dim, kv_split,
                               bias("self_attn.v_proj.bias"));
    if (config.qk_norm) {
        q = body.head_norm(q, layout.norm, "self_attn.q_norm.weight", config.head_dim);
        k = body.head_norm(k, layout.norm, "self_attn.k_norm.weight", config.head_dim);
    }
    q = body.rope(q, shape);
    k = body.rope(k, shape);
    auto const context = body.attention(q, k, v, shape);
    return body.linear(context, "attention_out", "self_attn.o_proj.weight", config.hidden_size, LinearSplit::row(),
                       config.attention_out_bias ? "self_attn.o_proj.bias" : std::string_view{});
}

/// gate, up -> act(gate) * up -> down, with `width` columns.
[[nodiscard]] constexpr ValueId append_gated_mlp(BodyBuilder& body, ModelConfig const& config, ValueId normed,
                                                 std::int64_t width) {
    auto const bias = [&](std::string_view name) { return config.mlp_bias ? name : std::string_view{}; };
    auto const split = LinearSplit::column(width);
    auto const gate = body.linear(normed, "gate", "mlp.gate_proj.weight", width, split, bias("mlp.gate_proj.bias"));
    auto const up = body.linear(normed, "up", "mlp.up_proj.weight", width, split, bias("mlp.up_proj.bias"));
    auto const activated = body.gated(gate, up, config.activation);
    return body.linear(activated, "mlp_out", "mlp.down_proj.weight", config.hidden_size, LinearSplit::row(),
                       bias("mlp.down_proj.bias"));
}

/// The path of a module of the base model: with the causal head over it, "model." comes first.
[[nodiscard]] constexpr std::string_view base_path(ModelConfig const& config, std::string_view with_head,
                                                   std::string_view without_head) {
    return is_base_class(config) ? without_head : with_head;
}

/// The embedding block before the layers of a program of llama's layout.
constexpr void begin_program(BlockProgram& program, ModelConfig const& config) {
    BodyBuilder embed(Value{.name = "ids", .width = 1});
    (void)embed.embedding(embed.input(), "weight", config.vocab_size, config.hidden_size);
    program.append(ModuleRole::embedding, base_path(config, "model.embed_tokens", "embed_tokens"),
                   program.add(std::move(embed).finish()));
}

/// The final norm and the head after the layers of a program of llama's layout.
constexpr void finish_program(BlockProgram& program, ModelConfig const& config, NormKind norm) {
    BodyBuilder last(config.hidden_size);
    (void)last.norm(last.input(), norm, "weight");
    program.append(ModuleRole::norm, base_path(config, "model.norm", "norm"), program.add(std::move(last).finish()));
    if (is_base_class(config)) return;
    BodyBuilder head(config.hidden_size);
    (void)head.logits(head.last_token(head.input()), "weight", config.vocab_size);
    program.append(ModuleRole::head, "lm_head", program.add(std::move(head).finish()));
}

}  // namespace shardwise::inline v0::detail
