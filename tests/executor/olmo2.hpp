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

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, "model");
        model.tokens("embed_tokens");
        model.layers("layers", [&](BlockBuilder& body) { write_layer(body, config); });
        detail::finish_program(model, config, layout);
        return std::move(model).finish();
    }

private:
    static constexpr void write_layer(BlockBuilder& body, ModelConfig const& config) {
        auto const shape = detail::attention_shape(config);
        auto const norm = [&](ValueId in, std::string_view module) { return body.norm(in, NormKind::rms, module); };
        auto const q = norm(body.linear(body.input(), "q", "self_attn.q_proj"), "self_attn.q_norm");
        auto const k = norm(body.linear(body.input(), "k", "self_attn.k_proj"), "self_attn.k_norm");
        auto const v = body.linear(body.input(), "v", "self_attn.v_proj");
        auto context = body.attention(body.rope(q, shape), body.rope(k, shape), v, shape);
        if (sub_norms) context = norm(context, "self_attn.sub_norm");
        auto const attended = body.linear(context, "attention_out", "self_attn.o_proj");
        auto const middle = body.add(body.input(), norm(attended, "post_attention_layernorm"));
        auto const gate = body.linear(middle, "gate", "mlp.gate_proj");
        auto gated = body.gated(gate, body.linear(middle, "up", "mlp.up_proj"), config.activation);
        if (sub_norms) gated = norm(gated, "ffn_sub_norm");
        auto const fed = body.linear(gated, "mlp_out", "mlp.down_proj");
        (void)body.add(middle, norm(fed, "post_feedforward_layernorm"));
    }
};

using OwnOlmo2 = Olmo2Norms<false>;
static_assert(ModelArchitecture<OwnOlmo2>);

}  // namespace shardwise::testing
