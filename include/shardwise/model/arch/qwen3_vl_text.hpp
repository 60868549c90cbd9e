// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The text model of Qwen3-VL: qwen3 with defaults of its own and no windows. Positions of text are the same along all axes, and
/// what the vision model adds to its first layers is for places of images.
///
/// Source  transformers 4.57 models/qwen3_vl/modeling_qwen3_vl.py (Qwen3VLTextModel)
struct Qwen3VlText {
    static constexpr std::string_view name = "qwen3_vl_text";
    static constexpr std::string_view gguf_name = "qwen3vl";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 151936).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 22016).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 32).in_gguf("attention.head_count_kv"),
        positive_field("head_dim", &ModelConfig::head_dim, 128).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 128000).in_gguf("context_length"),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 5000000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::join_aliases(detail::gguf_llama, detail::gguf_qk_norms);

    static constexpr detail::LlamaLayout layout{.prefix = "Qwen3VLText"};

    /// attention_bias covers all four projections.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::check_class(config, {"Qwen3VLForConditionalGeneration", "Qwen3VLTextModel"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.qk_norm = true;
        config.sliding_window = config.layer_types_count = 0;
        config.local_layers = {};
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Qwen3VlText>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
