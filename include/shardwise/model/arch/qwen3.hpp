// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Qwen3: norms of each query and key head.
///
/// Source  transformers 4.57 models/qwen3/modeling_qwen3.py
struct Qwen3 {
    static constexpr std::string_view name = "qwen3";
    static constexpr std::string_view gguf_name = "qwen3";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 151936).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 22016).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 32).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 128).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 32768).in_gguf("context_length"),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("use_sliding_window", &ModelConfig::use_sliding_window, false),
        natural_field("sliding_window", &ModelConfig::sliding_window, 4096).in_gguf("attention.sliding_window"),
        natural_field("max_window_layers", &ModelConfig::sliding_pattern, 28),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::join_aliases(detail::gguf_llama, detail::gguf_qk_norms);

    static constexpr detail::LlamaLayout layout{.prefix = "Qwen3"};

    /// attention_bias covers all four projections; from max_window_layers on layers slide where windows are used.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::check_class(
                config,
                {"Qwen3ForCausalLM", "Qwen3Model", "Qwen3ForSequenceClassification", "Qwen3ForTokenClassification"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.qk_norm = true;
        if (!config.use_sliding_window) config.sliding_window = 0;
        return detail::complete_windows(config, [&](std::int64_t layer) { return layer >= config.sliding_pattern; });
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Qwen3>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
