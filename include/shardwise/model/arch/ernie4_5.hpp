// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// ERNIE 4.5 without experts: llama whose neighbours in a head turn together.
///
/// Source  transformers 4.57 models/ernie4_5/modeling_ernie4_5.py
struct Ernie45 {
    static constexpr std::string_view name = "ernie4_5";
    static constexpr std::string_view gguf_name = "ernie4_5";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 103424).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 1024).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 3072).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 18).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 16).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 2).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 128).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 131072).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        flag_field("use_bias", &ModelConfig::attention_bias, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 500000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::gguf_llama;

    static constexpr detail::LlamaLayout layout{.prefix = "Ernie4_5"};

    /// use_bias covers every linear layer of a block. Published configs name the class of their own code.
    static constexpr Result<> complete(ModelConfig& config) {
        if (config.model_class.view() == "Ernie4_5_ForCausalLM") config.model_class = "Ernie4_5ForCausalLM";
        if (auto const checked = detail::check_class(config, {"Ernie4_5ForCausalLM", "Ernie4_5Model"}); !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        config.attention_out_bias = config.mlp_bias = config.attention_bias;
        config.interleaved_rope = true;
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Ernie45>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
