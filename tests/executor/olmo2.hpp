// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::testing {

/// OLMo 2, which normalises the queries of all heads together and the keys too, and the results of attention and MLP: a family
/// that a program writes for itself. With `sub_norms` also what the attention's heads and the gated columns give is normalised before
/// it is projected, as BitNet b1.58 does it.
///
/// Source  transformers 4.57 models/olmo2/modeling_olmo2.py
template <bool sub_norms>
struct Olmo2Norms {
    static constexpr std::string_view name = "olmo2";
    static constexpr std::string_view gguf_name = "olmo2";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 50304),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 11008),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32),
        positive_field("num_attention_heads", &ModelConfig::heads, 32),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 32),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-5),
    };
    static constexpr std::array<NameAlias, 0> aliases{};
    static constexpr detail::LlamaLayout layout{.prefix = "Olmo2"};

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::check_class(config, {"Olmo2ForCausalLM"}); !checked) return checked;
        return detail::complete_heads(config);
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const q_width = config.heads * config.head_dim;
        auto const kv_width = config.kv_heads * config.head_dim;
        auto const q_rule = ShardRule::units(0, config.heads);
        auto const kv_rule = ShardRule::kv(0, config.kv_heads, config.heads);
        auto const kv = part.linear(kv_width, config.hidden_size, false, kv_rule);
        List<Child> heads{
            {"q_proj", part.linear(q_width, config.hidden_size, false, q_rule)},
            {"k_proj", kv},
            {"v_proj", kv},
            {"o_proj", part.linear(config.hidden_size, q_width, false, ShardRule::units(1, config.heads))},
            {"q_norm", part.sharded_norm("Olmo2RMSNorm", q_width, q_rule)},
            {"k_norm", part.sharded_norm("Olmo2RMSNorm", kv_width, kv_rule)}};
        auto const mlp = detail::add_gated_mlp(tree, config, layout, config.intermediate_size);
        if (sub_norms) heads.push_back({"sub_norm", part.sharded_norm("Olmo2RMSNorm", q_width, q_rule)});
        auto const attention = tree.add("Olmo2Attention", {}, heads);
        auto const norm = part.norm("Olmo2RMSNorm", config.hidden_size);
        auto const width = config.intermediate_size;
        auto const ffn_norm =
            sub_norms ? part.sharded_norm("Olmo2RMSNorm", width, ShardRule::units(0, width)) : part.plain("Identity");
        auto const layer = tree.add("Olmo2DecoderLayer", {},
                                    {{"self_attn", attention},
                                     {"mlp", mlp},
                                     {"post_attention_layernorm", norm},
                                     {"post_feedforward_layernorm", norm},
                                     {"ffn_sub_norm", ffn_norm}});
        detail::finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)},
                               config.head_dim);
        return tree;
    }

    static constexpr BlockProgram program(auto const& config) {
        return detail::decoder_program(config, layout, [&](detail::LayerKind const&) { return layer_of(config); });
    }

private:
    static constexpr BlockBody layer_of(ModelConfig const& config) {
        BodyBuilder body(config.hidden_size);
        auto const shape = detail::attention_shape(config);
        auto const kv_width = config.kv_heads * config.head_dim;
        auto const kv_split = LinearSplit::column(config.kv_heads, config.heads);
        auto q = body.linear(body.input(), "q", "self_attn.q_proj.weight", config.heads * config.head_dim,
                             LinearSplit::column(config.heads));
        auto k = body.linear(body.input(), "k", "self_attn.k_proj.weight", kv_width, kv_split);
        auto const v = body.linear(body.input(), "v", "self_attn.v_proj.weight", kv_width, kv_split);
        q = body.rope(body.norm(q, NormKind::rms, "self_attn.q_norm.weight"), shape);
        k = body.rope(body.norm(k, NormKind::rms, "self_attn.k_norm.weight"), shape);
        auto context = body.attention(q, k, v, shape);
        if (sub_norms) context = body.norm(context, NormKind::rms, "self_attn.sub_norm.weight");
        auto const attended =
            body.linear(context, "attention_out", "self_attn.o_proj.weight", config.hidden_size, LinearSplit::row());
        auto const middle =
            body.add(body.input(), body.norm(attended, NormKind::rms, "post_attention_layernorm.weight"));
        auto const width = config.intermediate_size;
        auto const gate = body.linear(middle, "gate", "mlp.gate_proj.weight", width, LinearSplit::column(width));
        auto const up = body.linear(middle, "up", "mlp.up_proj.weight", width, LinearSplit::column(width));
        auto gated = body.gated(gate, up, config.activation);
        if (sub_norms) gated = body.norm(gated, NormKind::rms, "ffn_sub_norm.weight");
        auto const fed = body.linear(gated, "mlp_out", "mlp.down_proj.weight", config.hidden_size, LinearSplit::row());
        (void)body.add(middle, body.norm(fed, NormKind::rms, "post_feedforward_layernorm.weight"));
        return std::move(body).finish();
    }
};

using Olmo2 = Olmo2Norms<false>;
static_assert(ModelArchitecture<Olmo2>);

}  // namespace shardwise::testing
