// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// EXAONE 4: norms of what attention and MLP give, norms of query and key heads; where there are windows, only layers with one
/// turn.
///
/// Source  transformers 4.57 models/exaone4/modeling_exaone4.py
struct Exaone4 {
    static constexpr std::string_view name = "exaone4";
    static constexpr std::string_view gguf_name = "exaone4";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 102400).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 16384).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        positive_field("num_key_value_heads", &ModelConfig::kv_heads, 32).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 0).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 2048).in_gguf("context_length"),
        natural_field("sliding_window", &ModelConfig::sliding_window, 4096)
            .in_gguf("attention.sliding_window")
            .zero_in_gguf(),
        natural_field("sliding_window_pattern", &ModelConfig::sliding_pattern, 4).or_letters(),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::join_aliases(detail::gguf_ends, detail::gguf_qkv, detail::gguf_qk_norms,
                                                         detail::gguf_result_norms, detail::gguf_gated_mlp);

    static constexpr detail::LlamaLayout layout{.prefix = "Exaone4", .norms = detail::result_norms};

    /// No projection has a bias. Without layer_types, each sliding_window_pattern-th layer is full and the others slide.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked =
                detail::check_class(config, {"Exaone4ForCausalLM", "Exaone4Model", "Exaone4ForSequenceClassification",
                                             "Exaone4ForTokenClassification"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        config.attention_bias = config.attention_out_bias = config.mlp_bias = false;
        config.qk_norm = true;
        if (config.sliding_pattern < 1) config.sliding_pattern = 4;
        auto const slides = [&](std::int64_t layer) { return (layer + 1) % config.sliding_pattern != 0; };
        if (auto const checked = detail::complete_windows(config, slides); !checked) return checked;
        if (config.sliding_window > 0) detail::turn_windows_only(config);
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Exaone4>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
