// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/classic_decoder.hpp>
#include <shardwise/model/arch/detail/label_head.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Falcon in its three layouts: multi-query with one norm (7b), grouped heads with two norms (40b; 11b with one), and
/// ALiBi with attention and MLP in sequence (rw).
///
/// Source  transformers 4.57 models/falcon/modeling_falcon.py
struct Falcon {
    static constexpr std::string_view name = "falcon";
    static constexpr std::string_view gguf_name = "falcon";
    static constexpr std::string_view base_name = "transformer";
    static constexpr GgufForm gguf_form{.mixes_lightly = true};

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 65024).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4544).formerly("n_embed").in_gguf("embedding_length"),
        optional_field("ffn_hidden_size", &ModelConfig::intermediate_size, 0)
            .derived_from(&ModelConfig::hidden_size, 4)
            .in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 71).in_gguf("attention.head_count"),
        optional_field("num_kv_heads", &ModelConfig::kv_heads, 0).in_gguf("attention.head_count_kv"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 2048).in_gguf("context_length"),
        natural_field("num_ln_in_parallel_attn", 0),
        flag_field("new_decoder_architecture", false),
        flag_field("multi_query", true),
        flag_field("parallel_attn", true),
        flag_field("alibi", &ModelConfig::alibi, false),
        flag_field("bias", &ModelConfig::attention_bias, false),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        real_field("layer_norm_epsilon", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_epsilon"),
        activation_field("activation", ActivationKind::gelu),
    };

    /// GGUF names the norm of the only or the MLP's input attn_norm, and that of attention's input attn_norm_2.
    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "transformer.word_embeddings.weight"},
        NameAlias{"blk.{}.attn_norm.weight", "transformer.h.{}.input_layernorm.weight"},
        NameAlias{"blk.{}.attn_norm.bias", "transformer.h.{}.input_layernorm.bias"},
        NameAlias{"blk.{}.attn_norm.weight", "transformer.h.{}.ln_mlp.weight"},
        NameAlias{"blk.{}.attn_norm.bias", "transformer.h.{}.ln_mlp.bias"},
        NameAlias{"blk.{}.attn_norm_2.weight", "transformer.h.{}.ln_attn.weight"},
        NameAlias{"blk.{}.attn_norm_2.bias", "transformer.h.{}.ln_attn.bias"},
        NameAlias{"blk.{}.attn_qkv.weight", "transformer.h.{}.self_attention.query_key_value.weight"},
        NameAlias{"blk.{}.attn_qkv.bias", "transformer.h.{}.self_attention.query_key_value.bias"},
        NameAlias{"blk.{}.attn_output.weight", "transformer.h.{}.self_attention.dense.weight"},
        NameAlias{"blk.{}.attn_output.bias", "transformer.h.{}.self_attention.dense.bias"},
        NameAlias{"blk.{}.ffn_up.weight", "transformer.h.{}.mlp.dense_h_to_4h.weight"},
        NameAlias{"blk.{}.ffn_up.bias", "transformer.h.{}.mlp.dense_h_to_4h.bias"},
        NameAlias{"blk.{}.ffn_down.weight", "transformer.h.{}.mlp.dense_4h_to_h.weight"},
        NameAlias{"blk.{}.ffn_down.bias", "transformer.h.{}.mlp.dense_4h_to_h.bias"},
        NameAlias{"output_norm.weight", "transformer.ln_f.weight"},
        NameAlias{"output_norm.bias", "transformer.ln_f.bias"},
        NameAlias{"output.weight", "lm_head.weight"},
    };

    /// Key-value heads: num_kv_heads in the new layout (absent: all heads), one with multi_query, else all heads. The
    /// new layout has two norms in parallel unless told otherwise.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "Falcon", detail::label_classes); !known) return known;
        if (auto const ok = detail::check_size("hidden_size", config.hidden_size); !ok) return ok;
        derive_absent(fields, config);
        bool const is_new = is_new_layout(config);
        if (!is_new) config.kv_heads = config.own["multi_query"] != 0 ? 1 : config.heads;
        if (config.kv_heads == 0) config.kv_heads = config.heads;
        detail::ConfigKeys const keys{.kv_heads = "num_kv_heads", .intermediate_size = "ffn_hidden_size"};
        if (auto const ok = detail::check_sizes(config, keys); !ok) return ok;
        config.head_dim = config.hidden_size / config.heads;
        if (is_new && config.own["num_ln_in_parallel_attn"] == 0) config.own.set("num_ln_in_parallel_attn", 2);
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = config.attention_bias;
        return {};
    }

    /// GGUF states neither the layout nor how many norms it has.
    static void infer_from_gguf(GgufTensorNames const& names, ModelConfig& config) {
        bool const has_two_norms = names.has("blk.0.attn_norm_2.weight");
        bool const is_new = has_two_norms || (config.kv_heads > 1 && config.kv_heads < config.heads);
        config.own.set("multi_query", config.kv_heads == 1 ? 1 : 0);
        config.own.set("new_decoder_architecture", is_new ? 1 : 0);
        if (is_new) config.own.set("num_ln_in_parallel_attn", has_two_norms ? 2 : 1);
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const width = config.intermediate_size;
        bool const bias = config.attention_bias;
        auto const norm = detail::add_layer_norm(part, hidden);
        auto const linear = [&](TensorUse use, std::int64_t out, std::int64_t in, ShardRule rule) {
            auto const weight = part.tensors().weight(out, in, rule, use);
            if (!bias) return tree.add("FalconLinear", {weight});
            return tree.add("FalconLinear", {weight, part.tensors().bias(out, rule.dim == 0 ? rule : ShardRule{})});
        };
        auto const attention = tree.add(
            "FalconAttention", {},
            {{"query_key_value", linear(TensorUse::attention_qkv, qkv_width(config), hidden, qkv_rule(config))},
             {"dense", linear(TensorUse::attention_output, hidden, hidden, ShardRule::units(1, config.heads))},
             {"attention_dropout", part.plain("Dropout")}});
        auto const mlp =
            tree.add("FalconMLP", {},
                     {{"dense_h_to_4h", linear(TensorUse::ffn_up, width, hidden, ShardRule::units(0, width))},
                      {"act", part.plain(activation_class(config.activation))},
                      {"dense_4h_to_h", linear(TensorUse::ffn_down, hidden, width, ShardRule::units(1, width))}});
        List<Child> children{{"self_attention", attention}, {"mlp", mlp}};
        if (has_two_norms(config)) {
            children.push_back({"ln_attn", norm});
            children.push_back({"ln_mlp", norm});
        } else {
            if (config.own["parallel_attn"] == 0) children.push_back({"post_attention_layernorm", norm});
            children.push_back({"input_layernorm", norm});
        }
        auto const layer = tree.add("FalconDecoderLayer", children);
        tree.keep_whole("FalconDecoderLayer");
        auto const list = tree.add("ModuleList", {}, {numbered(0, config.layers, layer, ModuleRole::layer)});
        auto const rotary = part.rotary("FalconRotaryEmbedding", round_up(config.head_dim, 2));
        auto const model =
            tree.add("FalconModel", {},
                     {{"word_embeddings", part.vocabulary(config.vocab_size, hidden), ModuleRole::embedding},
                      {"h", list},
                      {"ln_f", norm, ModuleRole::norm},
                      {"rotary_emb", rotary}});
        tree.set_root(model);
        if (config.labels > 0) {
            detail::add_label_head(tree, config, "transformer", model, hidden, "classifier");
            return tree;
        }
        if (!has_head(config)) return tree;
        auto const head =
            part.linear(config.vocab_size, hidden, false, ShardRule::units(0, config.vocab_size), TensorUse::head);
        tree.set_root(tree.add("FalconForCausalLM", {}, {{"transformer", model}, {"lm_head", head, ModuleRole::head}}));
        if (config.tie_word_embeddings) tree.tie("transformer.word_embeddings.weight", "lm_head.weight");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, base_name);
        model.tokens("word_embeddings");
        model.layers("h", [&](BlockBuilder& body) { write_layer(body, config); });
        model.norm("ln_f", NormKind::layer);
        detail::append_label_head(model, config, "classifier");
        model.head("lm_head");
        return std::move(model).finish();
    }

private:
    static constexpr bool has_head(ModelConfig const& config) {
        return config.model_class.view() == "FalconForCausalLM";
    }
    static constexpr bool is_new_layout(ModelConfig const& config) {
        return config.own["new_decoder_architecture"] != 0;
    }
    static constexpr bool has_two_norms(ModelConfig const& config) {
        return config.own["parallel_attn"] != 0 && config.own["num_ln_in_parallel_attn"] == 2;
    }
    /// True where q, k and v lie side by side for every head.
    static constexpr bool is_interleaved(ModelConfig const& config) {
        return !is_new_layout(config) && config.own["multi_query"] == 0;
    }
    static constexpr std::int64_t qkv_width(ModelConfig const& config) {
        return (config.heads + 2 * config.kv_heads) * config.head_dim;
    }
    static constexpr ShardRule qkv_rule(ModelConfig const& config) {
        if (is_interleaved(config)) return ShardRule::units(0, config.heads);
        return is_new_layout(config) ? ShardRule::grouped_qkv(0, config.heads, config.kv_heads)
                                     : ShardRule::qkv(0, config.heads, config.kv_heads);
    }

    static constexpr void write_layer(BlockBuilder& body, ModelConfig const& config) {
        auto shape = detail::plain_attention(config);
        shape.has_rounded_slopes = config.alibi;
        bool const two = has_two_norms(config);
        auto const normed = body.layer_norm(body.input(), two ? "ln_attn" : "input_layernorm");
        auto const mlp_input = two ? body.layer_norm(body.input(), "ln_mlp") : normed;
        auto qkv = body.linear(normed, "qkv", "self_attention.query_key_value");
        if (!config.alibi) qkv = body.rope(qkv, shape);
        auto const context = body.attention(qkv, qkv, qkv, shape);
        auto const middle = body.add(body.input(), body.linear(context, "attention_out", "self_attention.dense"));
        auto const mlp_normed =
            config.own["parallel_attn"] != 0 ? mlp_input : body.layer_norm(middle, "post_attention_layernorm");
        (void)body.add(middle, detail::append_mlp(body, config, mlp_normed, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"));
    }
};

static_assert(ModelArchitecture<Falcon>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
