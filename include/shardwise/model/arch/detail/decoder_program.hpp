// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_layer.hpp>

/// The block program of decoders of llama's layout.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What layers of equal modules differ in.
struct LayerKind {
    /// The window of its attention; 0 sees everything.
    std::int64_t window = 0;
    /// False for the layers whose queries and keys do not turn (smollm3).
    bool has_rope = true;

    friend constexpr bool operator==(LayerKind const&, LayerKind const&) = default;
};

/// normed -> q, k, v -> rope -> attention -> o, with the norms of heads and the sinks (gpt_oss) that the layer has.
[[nodiscard]] constexpr ValueId append_attention(BlockBuilder& body, ModelConfig const& config,
                                                 LlamaLayout const& layout, ValueId normed, LayerKind const& kind) {
    auto shape = attention_shape(config, kind.window);
    if (!layout.score_cap.empty()) shape.soft_cap = config.own.real(layout.score_cap);
    if (!layout.sees_later.empty()) shape.is_causal = config.own[layout.sees_later] == 0;
    auto q = body.linear(normed, "q", "self_attn.q_proj");
    auto k = body.linear(normed, "k", "self_attn.k_proj");
    auto const v = body.linear(normed, "v", "self_attn.v_proj");
    auto const norm_heads = [&](ValueId in, std::string_view name) {
        auto const path = body.path("self_attn", name);
        if (!body.has(path)) return in;
        return layout.head_norms.are_wide ? body.norm(in, layout.norm, path) : body.head_norm(in, layout.norm, path);
    };
    auto const norm_both = [&] {
        q = norm_heads(q, layout.head_norms.query);
        k = norm_heads(k, layout.head_norms.key);
    };
    if (!layout.head_norms.follow_rope) norm_both();
    if (kind.has_rope) {
        q = body.rope(q, shape);
        k = body.rope(k, shape);
    }
    if (layout.head_norms.follow_rope) norm_both();
    auto const context = body.attention(q, k, v, shape, "self_attn.sinks");
    return body.linear(context, "attention_out", "self_attn.o_proj");
}

/// What the values of an MLP are called.
struct MlpValues {
    std::string_view gate = "gate";
    std::string_view up = "up";
    std::string_view out = "mlp_out";
};

/// gate, up -> act(gate) * up -> down; where the MLP has no gate, up -> act(up) -> down.
[[nodiscard]] constexpr ValueId append_gated_mlp(BlockBuilder& body, ModelConfig const& config, ValueId normed,
                                                 std::string_view mlp = "mlp", MlpValues const& names = {}) {
    auto const gate_path = body.path(mlp, "gate_proj");
    bool const has_gate = body.has(gate_path);
    auto const gate = has_gate ? body.linear(normed, names.gate, gate_path) : no_value;
    auto const up = body.linear(normed, names.up, body.path(mlp, "up_proj"));
    auto const activated = has_gate ? body.gated(gate, up, config.activation)
                                    : body.activation(up, config.activation, body.path(mlp, "act_fn"));
    return body.linear(activated, names.out, body.path(mlp, "down_proj"));
}

/// One layer: norm, attend(body, normed), residual, norm, feed(body, normed), residual; norms of the results where the
/// layout has them. In a parallel layer attention and MLP read one norm.
template <class Attend, class Feed>
constexpr void write_decoder_layer(BlockBuilder& body, ModelConfig const& config, LlamaLayout const& layout,
                                   Attend const& attend, Feed const& feed) {
    auto const& norms = layout.norms;
    auto const norm = [&](ValueId in, std::string_view name) {
        return name.empty() ? in : body.norm(in, layout.norm, name);
    };
    auto const normed = norm(body.input(), norms.before_attention);
    auto attended = norm(attend(body, normed), norms.after_attention);
    attended = body.scale(attended, config.residual_scale);
    if (layout.is_parallel) {
        auto const fed = body.scale(feed(body, normed), config.residual_scale);
        (void)body.add(body.input(), body.add(attended, fed));
        return;
    }
    auto const middle = body.add(body.input(), attended);
    auto const fed = norm(feed(body, norm(middle, norms.before_mlp)), norms.after_mlp);
    (void)body.add(middle, body.scale(fed, config.residual_scale));
}

/// The final norm and the head after the layers of a program of llama's layout.
constexpr void finish_program(ProgramBuilder& model, ModelConfig const& config, LlamaLayout const& layout) {
    model.norm("norm", layout.norm);
    append_label_head(model, config);
    model.head("lm_head", layout.divides_logits ? 1.0 / config.logit_scale : config.logit_scale);
}

/// The program of a decoder of llama's layout: embedding, layers of attend(body, normed, kind) and feed(body, normed), norm, head.
template <class Attend, class Feed>
[[nodiscard]] constexpr BlockProgram decoder_program(ModelConfig const& config, LlamaLayout const& layout,
                                                     ModuleTree const& tree, Attend const& attend, Feed const& feed) {
    ProgramBuilder model(tree, "model");
    model.tokens("embed_tokens", config.embedding_scale);
    auto const kind_of = [&](std::int64_t layer) {
        return LayerKind{config.local_layers.contains(layer) ? config.sliding_window : 0,
                         !config.rope_free_layers.contains(layer)};
    };
    model.layers("layers", kind_of, [&](BlockBuilder& body, LayerKind const& kind) {
        auto const attend_kind = [&](BlockBuilder& builder, ValueId in) { return attend(builder, in, kind); };
        write_decoder_layer(body, config, layout, attend_kind, feed);
    });
    finish_program(model, config, layout);
    return std::move(model).finish();
}

/// The same with llama's attention.
template <class Feed>
[[nodiscard]] constexpr BlockProgram decoder_program(ModelConfig const& config, LlamaLayout const& layout,
                                                     ModuleTree const& tree, Feed const& feed) {
    auto const attend = [&](BlockBuilder& body, ValueId in, LayerKind const& kind) {
        return append_attention(body, config, layout, in, kind);
    };
    return decoder_program(config, layout, tree, attend, feed);
}

/// The program of a family whose layers are all of llama's kind, windows as configured.
[[nodiscard]] constexpr BlockProgram dense_decoder_program(ModelConfig const& config, LlamaLayout const& layout,
                                                           ModuleTree const& tree) {
    return decoder_program(config, layout, tree,
                           [&](BlockBuilder& body, ValueId in) { return append_gated_mlp(body, config, in); });
}

/// Base of a family whose layers are all of llama's kind: tree and program from `Family::layout`.
template <class Family>
struct DenseDecoder {
    static constexpr ModuleTree tree(auto const& config) { return dense_decoder_tree(config, Family::layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return dense_decoder_program(config, Family::layout, tree);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
