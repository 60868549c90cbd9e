#pragma once

#include <shardwise/model/arch/detail/decoder_layer.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline v0 {

/// Llama 1 to 3.x and models that publish under its model_type (Yi, SmolLM).
///
/// Source  transformers 4.57 models/llama/modeling_llama.py
struct Llama {
    static constexpr std::string_view name = "llama";
    static constexpr std::string_view gguf_name = "llama";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 32000).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 11008).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        natural_field("num_key_value_heads", &ModelConfig::kv_heads, 0).in_gguf("attention.head_count_kv"),
        natural_field("head_dim", &ModelConfig::head_dim, 0).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 2048).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("mlp_bias", &ModelConfig::mlp_bias, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "model.embed_tokens.weight"},
        NameAlias{"blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight"},
        NameAlias{"blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight"},
        NameAlias{"blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight"},
        NameAlias{"blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight"},
        NameAlias{"blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight"},
        NameAlias{"blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias"},
        NameAlias{"blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias"},
        NameAlias{"blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias"},
        NameAlias{"blk.{}.attn_output.bias", "model.layers.{}.self_attn.o_proj.bias"},
        NameAlias{"blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
        NameAlias{"blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight"},
        NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight"},
        NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"},
        NameAlias{"output_norm.weight", "model.norm.weight"},
        NameAlias{"output.weight", "lm_head.weight"},
    };

    static constexpr detail::LlamaLayout layout{.prefix = "Llama"};

    /// Absent kv heads are the query heads; absent head_dim is hidden / heads; attention_bias covers all four projections.
    static constexpr Result<> complete(ModelConfig& config) {
        bool const is_head_dim_given = config.head_dim > 0;
        if (config.kv_heads == 0) config.kv_heads = config.heads;
        if (auto const checked = detail::check_heads(config, is_head_dim_given); !checked) return checked;
        if (!is_head_dim_given) config.head_dim = config.hidden_size / config.heads;
        config.attention_out_bias = config.attention_bias;
        return {};
    }

    static constexpr ModuleTree tree(ModelConfig const& config) {
        ModuleTree tree;
        auto const attention = detail::add_attention(tree, config, layout);
        auto const mlp = detail::add_gated_mlp(tree, config, layout, config.intermediate_size);
        auto const layer = detail::add_decoder_layer(tree, config, layout, attention, mlp);
        detail::finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)}, config.head_dim);
        return tree;
    }

    static constexpr BlockProgram program(ModelConfig const& config) {
        BlockProgram program;
        detail::begin_program(program, config);
        BodyBuilder body(config.hidden_size);
        auto const normed = body.norm(body.input(), layout.norm, "input_layernorm.weight");
        auto const attended = detail::append_attention(body, config, layout, normed, 0);
        auto const middle = body.add(body.input(), attended);
        auto const normed_again = body.norm(middle, layout.norm, "post_attention_layernorm.weight");
        auto const mlp = detail::append_gated_mlp(body, config, normed_again, config.intermediate_size);
        (void)body.add(middle, mlp);
        program.append_layers(detail::base_path(config, "model.layers", "layers"), 0, config.layers,
                              program.add(std::move(body).finish()));
        detail::finish_program(program, config, layout.norm);
        return program;
    }
};

static_assert(ModelArchitecture<Llama>);

}  // namespace shardwise::inline v0
