// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/classic_decoder.hpp>
#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/label_head.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Phi-1, 1.5 and 2: attention and MLP read one norm in parallel, heads are rotated in part, every linear layer has a
/// bias.
///
/// Source  transformers 4.57 models/phi/modeling_phi.py
struct Phi {
    static constexpr std::string_view name = "phi";
    static constexpr std::string_view gguf_name = "phi2";

    static constexpr auto fields = detail::decoder_fields({.vocab_size = 51200,
                                                           .hidden_size = 2048,
                                                           .intermediate_size = 8192,
                                                           .layers = 24,
                                                           .heads = 32,
                                                           .max_positions = 2048,
                                                           .layer_norm_key = "layer_norm_eps",
                                                           .norm_epsilon = 1e-5,
                                                           .activation = ActivationKind::gelu_new},
                                                          flag_field("qk_layernorm", &ModelConfig::qk_norm, false),
                                                          detail::partial_rotary_field(0.5), detail::rotary_dim_field);

    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "model.embed_tokens.weight"},
        NameAlias{"blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight"},
        NameAlias{"blk.{}.attn_norm.bias", "model.layers.{}.input_layernorm.bias"},
        NameAlias{"blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight"},
        NameAlias{"blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias"},
        NameAlias{"blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight"},
        NameAlias{"blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias"},
        NameAlias{"blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight"},
        NameAlias{"blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias"},
        // Older conversions store the three as one.
        NameAlias{"blk.{}.attn_qkv.weight", "model.layers.{}.self_attn.q_proj.weight"},
        NameAlias{"blk.{}.attn_qkv.weight", "model.layers.{}.self_attn.k_proj.weight"},
        NameAlias{"blk.{}.attn_qkv.weight", "model.layers.{}.self_attn.v_proj.weight"},
        NameAlias{"blk.{}.attn_qkv.bias", "model.layers.{}.self_attn.q_proj.bias"},
        NameAlias{"blk.{}.attn_qkv.bias", "model.layers.{}.self_attn.k_proj.bias"},
        NameAlias{"blk.{}.attn_qkv.bias", "model.layers.{}.self_attn.v_proj.bias"},
        NameAlias{"blk.{}.attn_output.weight", "model.layers.{}.self_attn.dense.weight"},
        NameAlias{"blk.{}.attn_output.bias", "model.layers.{}.self_attn.dense.bias"},
        NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.fc1.weight"},
        NameAlias{"blk.{}.ffn_up.bias", "model.layers.{}.mlp.fc1.bias"},
        NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.fc2.weight"},
        NameAlias{"blk.{}.ffn_down.bias", "model.layers.{}.mlp.fc2.bias"},
        NameAlias{"output_norm.weight", "model.final_layernorm.weight"},
        NameAlias{"output_norm.bias", "model.final_layernorm.bias"},
        NameAlias{"output.weight", "lm_head.weight"},
        NameAlias{"output.bias", "lm_head.bias"},
    };

    /// Absent key-value heads are the query heads.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "Phi", detail::label_classes); !known) return known;
        if (config.kv_heads == 0) config.kv_heads = config.heads;
        bool const is_head_dim_given = config.head_dim > 0;
        if (auto const ok = detail::check_sizes(config, {}, is_head_dim_given); !ok) return ok;
        if (!is_head_dim_given) config.head_dim = config.hidden_size / config.heads;
        config.attention_bias = config.attention_out_bias = config.mlp_bias = true;
        return detail::derive_rotary_dim(config, "partial_rotary_factor");
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const width = config.intermediate_size;
        auto const q_width = config.heads * config.head_dim;
        auto const norm = detail::add_layer_norm(part, hidden);
        auto const dropout = part.plain("Dropout");
        auto const kv = [&](TensorUse use) {
            return part.linear(config.kv_heads * config.head_dim, hidden, true,
                               ShardRule::kv(0, config.kv_heads, config.heads), use);
        };
        auto const q = part.linear(q_width, hidden, true, ShardRule::units(0, config.heads), TensorUse::attention_q);
        auto const out =
            part.linear(hidden, q_width, true, ShardRule::units(1, config.heads), TensorUse::attention_output);
        List<Child> children{{"q_proj", q},
                             {"k_proj", kv(TensorUse::attention_k)},
                             {"v_proj", kv(TensorUse::attention_v)},
                             {"dense", out}};
        if (config.qk_norm) {
            auto const head_norm = detail::add_layer_norm(part, config.head_dim);
            children.push_back({"q_layernorm", head_norm});
            children.push_back({"k_layernorm", head_norm});
        }
        auto const attention = tree.add("PhiAttention", children);
        auto const mlp =
            tree.add("PhiMLP", {},
                     {{"activation_fn", part.plain(activation_class(config.activation))},
                      {"fc1", part.linear(width, hidden, true, ShardRule::units(0, width), TensorUse::ffn_up)},
                      {"fc2", part.linear(hidden, width, true, ShardRule::units(1, width), TensorUse::ffn_down)}});
        auto const layer =
            tree.add("PhiDecoderLayer", {},
                     {{"self_attn", attention}, {"mlp", mlp}, {"input_layernorm", norm}, {"resid_dropout", dropout}});
        tree.keep_whole("PhiDecoderLayer");
        auto const list = tree.add("ModuleList", {}, {numbered(0, config.layers, layer, ModuleRole::layer)});
        auto const rotary = part.rotary("PhiRotaryEmbedding", round_up(config.rotary_dim, 2));
        auto const model =
            tree.add("PhiModel", {},
                     {{"embed_tokens", part.vocabulary(config.vocab_size, hidden), ModuleRole::embedding},
                      {"layers", list},
                      {"rotary_emb", rotary},
                      {"embed_dropout", dropout},
                      {"final_layernorm", norm, ModuleRole::norm}});
        tree.set_root(model);
        if (config.labels > 0) {
            detail::add_label_head(tree, config, "model", model, hidden);
            return tree;
        }
        if (!has_head(config)) return tree;
        auto const head =
            part.linear(config.vocab_size, hidden, true, ShardRule::units(0, config.vocab_size), TensorUse::head);
        tree.set_root(tree.add("PhiForCausalLM", {}, {{"model", model}, {"lm_head", head, ModuleRole::head}}));
        if (config.tie_word_embeddings) tree.tie("model.embed_tokens.weight", "lm_head.weight");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, "model");
        model.tokens("embed_tokens");
        model.layers("layers", [&](BlockBuilder& body) {
            auto const shape = detail::plain_attention(config);
            auto const normed = body.layer_norm(body.input(), "input_layernorm");
            auto q = body.linear(normed, "q", "self_attn.q_proj");
            auto k = body.linear(normed, "k", "self_attn.k_proj");
            auto const v = body.linear(normed, "v", "self_attn.v_proj");
            if (config.qk_norm) {
                q = body.head_norm(q, NormKind::layer, "self_attn.q_layernorm");
                k = body.head_norm(k, NormKind::layer, "self_attn.k_layernorm");
            }
            q = body.rope(q, shape);
            k = body.rope(k, shape);
            auto const context = body.attention(q, k, v, shape);
            auto const middle = body.add(body.input(), body.linear(context, "attention_out", "self_attn.dense"));
            (void)body.add(middle, detail::append_mlp(body, config, normed, "mlp.fc1", "mlp.fc2"));
        });
        model.norm("final_layernorm", NormKind::layer);
        detail::append_label_head(model, config);
        model.head("lm_head");
        return std::move(model).finish();
    }

private:
    static constexpr bool has_head(ModelConfig const& config) { return config.model_class.view() == "PhiForCausalLM"; }
};

static_assert(ModelArchitecture<Phi>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
