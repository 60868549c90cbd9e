// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_layer.hpp>

#include <array>

/// The block program of decoders of llama's layout.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What makes the bodies of one model's layers differ.
struct LayerKind {
    /// The window of its attention; 0 sees everything.
    std::int64_t window = 0;
    /// True for the layers of a Mixture-of-Experts model that have no experts.
    bool is_dense = false;
    /// False for the layers whose queries and keys do not turn (smollm3).
    bool has_rope = true;
};

/// normed -> q, k, v -> rope -> attention -> o. `sinks` names attention's extra scores (gpt_oss).
[[nodiscard]] constexpr ValueId append_attention(BodyBuilder& body, ModelConfig const& config,
                                                 LlamaLayout const& layout, ValueId normed, LayerKind const& kind,
                                                 std::string_view sinks = {}) {
    auto const shape = attention_shape(config, kind.window);
    auto const bias = [&](std::string_view name) { return config.attention_bias ? name : std::string_view{}; };
    auto const q_split = LinearSplit::column(config.heads);
    auto const kv_split = LinearSplit::column(config.kv_heads, config.heads);
    auto q = body.linear(normed, "q", "self_attn.q_proj.weight", config.heads * config.head_dim, q_split,
                         bias("self_attn.q_proj.bias"));
    auto k = body.linear(normed, "k", "self_attn.k_proj.weight", config.kv_heads * config.head_dim, kv_split,
                         bias("self_attn.k_proj.bias"));
    auto const v = body.linear(normed, "v", "self_attn.v_proj.weight", config.kv_heads * config.head_dim, kv_split,
                               bias("self_attn.v_proj.bias"));
    auto const norm_heads = [&] {
        auto const norm = [&](ValueId in, std::string_view weight) {
            if (layout.head_norms.are_wide) return body.norm(in, layout.norm, weight);
            return body.head_norm(in, layout.norm, weight, config.head_dim);
        };
        q = norm(q, layout.head_norms.query_weight);
        k = norm(k, layout.head_norms.key_weight);
    };
    if (config.qk_norm && !layout.head_norms.follow_rope) norm_heads();
    if (kind.has_rope) {
        q = body.rope(q, shape);
        k = body.rope(k, shape);
    }
    if (config.qk_norm && layout.head_norms.follow_rope) norm_heads();
    auto const context = body.attention(q, k, v, shape, sinks);
    return body.linear(context, "attention_out", "self_attn.o_proj.weight", config.hidden_size, LinearSplit::row(),
                       config.attention_out_bias ? "self_attn.o_proj.bias" : std::string_view{});
}

/// gate, up -> act(gate) * up -> down, with `width` columns; without a gate up -> act(up) -> down.
[[nodiscard]] constexpr ValueId append_gated_mlp(BodyBuilder& body, ModelConfig const& config, ValueId normed,
                                                 std::int64_t width, bool has_gate = true) {
    auto const bias = [&](std::string_view name) { return config.mlp_bias ? name : std::string_view{}; };
    auto const split = LinearSplit::column(width);
    ValueId gate = no_value;
    if (has_gate) gate = body.linear(normed, "gate", "mlp.gate_proj.weight", width, split, bias("mlp.gate_proj.bias"));
    auto const up = body.linear(normed, "up", "mlp.up_proj.weight", width, split, bias("mlp.up_proj.bias"));
    auto const activated = has_gate ? body.gated(gate, up, config.activation) : body.activation(up, config.activation);
    return body.linear(activated, "mlp_out", "mlp.down_proj.weight", config.hidden_size, LinearSplit::row(),
                       bias("mlp.down_proj.bias"));
}

/// A norm of the hidden state where the layer has it.
[[nodiscard]] constexpr ValueId append_norm(BodyBuilder& body, LlamaLayout const& layout, NormName const& name,
                                            ValueId in) {
    if (name.module.empty()) return in;
    return body.norm(in, layout.norm, name.weight, layout.has_norm_bias ? name.bias : std::string_view{});
}

/// One layer: norm, attend(body, normed), residual, norm, feed(body, normed), residual; norms of the results where the
/// layout has them. In a parallel layer attention and MLP read one norm.
template <class Attend, class Feed>
[[nodiscard]] constexpr BlockBody decoder_body(ModelConfig const& config, LlamaLayout const& layout, Attend attend,
                                               Feed feed) {
    BodyBuilder body(config.hidden_size);
    auto const& norms = layout.norms;
    auto const normed = append_norm(body, layout, norms.before_attention, body.input());
    auto attended = append_norm(body, layout, norms.after_attention, attend(body, normed));
    attended = body.scale(attended, config.residual_scale);
    if (layout.is_parallel) {
        auto const fed = body.scale(feed(body, normed), config.residual_scale);
        (void)body.add(body.input(), body.add(attended, fed));
        return std::move(body).finish();
    }
    auto const middle = body.add(body.input(), attended);
    auto const fed =
        append_norm(body, layout, norms.after_mlp, feed(body, append_norm(body, layout, norms.before_mlp, middle)));
    (void)body.add(middle, body.scale(fed, config.residual_scale));
    return std::move(body).finish();
}

/// The path of a module of the base model: with the causal head over it, "model." comes first.
[[nodiscard]] constexpr std::string_view base_path(ModelConfig const& config, std::string_view with_head,
                                                   std::string_view without_head) {
    return is_base_class(config) ? without_head : with_head;
}

/// Appends every layer of a decoder; make_body(kind) writes the body of each kind once.
template <class MakeBody>
constexpr void append_decoder_layers(BlockProgram& program, ModelConfig const& config, MakeBody make_body) {
    auto const list = base_path(config, "model.layers", "layers");
    std::array<std::int32_t, 8> bodies{-1, -1, -1, -1, -1, -1, -1, -1};
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
        bool const slides = config.sliding_layers.contains(layer);
        bool const is_dense = config.dense_layers.contains(layer);
        bool const has_rope = !config.rope_free_layers.contains(layer);
        auto& body = bodies[(has_rope ? 4U : 0U) + (slides ? 2U : 0U) + (is_dense ? 1U : 0U)];
        if (body < 0) body = program.add(make_body(LayerKind{slides ? config.sliding_window : 0, is_dense, has_rope}));
        program.append_layer(list, layer, body);
    }
}

/// The embedding block before the layers of a program of llama's layout.
constexpr void begin_program(BlockProgram& program, ModelConfig const& config) {
    BodyBuilder embed(Value{.name = "ids", .width = 1});
    auto const rows = embed.embedding(embed.input(), "weight", config.vocab_size, config.hidden_size);
    (void)embed.scale(rows, config.embedding_scale);
    program.append(ModuleRole::embedding, base_path(config, "model.embed_tokens", "embed_tokens"),
                   program.add(std::move(embed).finish()));
}

/// The final norm and the head after the layers of a program of llama's layout.
constexpr void finish_program(BlockProgram& program, ModelConfig const& config, LlamaLayout const& layout) {
    BodyBuilder last(config.hidden_size);
    (void)last.norm(last.input(), layout.norm, "weight",
                    layout.has_norm_bias ? std::string_view{"bias"} : std::string_view{});
    program.append(ModuleRole::norm, base_path(config, "model.norm", "norm"), program.add(std::move(last).finish()));
    if (is_base_class(config)) return;
    BodyBuilder head(config.hidden_size);
    if (config.labels > 0) {
        auto const bias = is_for(config, "ForTokenClassification") ? std::string_view{"bias"} : std::string_view{};
        (void)head.linear(head.input(), "scores", "weight", config.labels, {}, bias);
        return program.append(ModuleRole::head, "score", program.add(std::move(head).finish()));
    }
    // The product is linear: a factor of the logits is one of its input, which is shorter.
    auto const factor = layout.divides_logits ? 1.0 / config.logit_scale : config.logit_scale;
    auto const last_rows = head.scale(head.last_token(head.input()), factor);
    (void)head.logits(last_rows, "weight", config.vocab_size);
    program.append(ModuleRole::head, "lm_head", program.add(std::move(head).finish()));
}

/// The program of a decoder of llama's layout: embedding, layers by make_body(kind), norm, head.
template <class MakeBody>
[[nodiscard]] constexpr BlockProgram decoder_program(ModelConfig const& config, LlamaLayout const& layout,
                                                     MakeBody make_body) {
    BlockProgram program;
    begin_program(program, config);
    append_decoder_layers(program, config, make_body);
    finish_program(program, config, layout);
    return program;
}

/// The program of a family whose layers are all of llama's kind, windows as configured.
[[nodiscard]] constexpr BlockProgram dense_decoder_program(ModelConfig const& config, LlamaLayout const& layout) {
    return decoder_program(config, layout, [&](LayerKind const& kind) {
        return decoder_body(
            config, layout,
            [&](BodyBuilder& body, ValueId in) { return append_attention(body, config, layout, in, kind); },
            [&](BodyBuilder& body, ValueId in) {
                return append_gated_mlp(body, config, in, config.intermediate_size, layout.has_gate);
            });
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
