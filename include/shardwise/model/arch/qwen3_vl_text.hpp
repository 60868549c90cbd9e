// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The text model of Qwen3-VL: qwen3 with defaults of its own and no windows. Positions of text are the same along all axes, and
/// what the vision model adds to its first layers is for places of images.
///
/// Source  transformers 4.57 models/qwen3_vl/modeling_qwen3_vl.py (Qwen3VLTextModel)
struct Qwen3VlText : detail::DenseDecoder<Qwen3VlText> {
    static constexpr std::string_view name = "qwen3_vl_text";
    static constexpr std::string_view gguf_name = "qwen3vl";

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 151936,
                                .hidden_size = 4096,
                                .intermediate_size = 22016,
                                .layers = 32,
                                .heads = 32,
                                .kv_heads = 32,
                                .head_dim = 128,
                                .max_positions = 128000,
                                .has_nullable_head_dim = false,
                                .rope_theta = 5000000.0},
                               flag_field("attention_bias", &ModelConfig::attention_bias, false));

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
        detail::leave_out_windows(config);
        return {};
    }
};

static_assert(ModelArchitecture<Qwen3VlText>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
