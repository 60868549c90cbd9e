// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Granite 3.x, dense: llama's layout with factors of embeddings, residuals, scores and logits.
///
/// Source  transformers 4.57 models/granite/modeling_granite.py
struct Granite : detail::DenseDecoder<Granite> {
    static constexpr std::string_view name = "granite";
    static constexpr std::string_view gguf_name = "granite";
    static constexpr GgufForm gguf_form{.permutes_rope_rows = true};

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 32000,
         .hidden_size = 4096,
         .intermediate_size = 11008,
         .layers = 32,
         .heads = 32,
         .max_positions = 2048},
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("mlp_bias", &ModelConfig::mlp_bias, false),
        real_field("embedding_multiplier", &ModelConfig::embedding_scale, 1.0).in_gguf("embedding_scale"),
        real_field("residual_multiplier", &ModelConfig::residual_scale, 1.0).in_gguf("residual_scale"),
        real_field("attention_multiplier", &ModelConfig::score_scale, 1.0).in_gguf("attention.scale"),
        real_field("logits_scaling", &ModelConfig::logit_scale, 1.0).in_gguf("logit_scale"));

    static constexpr auto aliases = detail::gguf_llama;

    /// A file without the factor of the scores has the usual one.
    static constexpr std::array gguf_defaults{
        GgufDefault(
            "attention_multiplier", [](ModelConfig& config) { detail::assume_head_scale(config); },
            "llama.cpp 0c1e570, src/models/granite.cpp: f_attention_scale"),
    };

    static constexpr detail::LlamaLayout layout{
        .prefix = "Granite", .classes = detail::causal_classes, .divides_logits = true};

    /// attention_bias covers all four projections; a factor of 0 would leave nothing of the model.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (config.logit_scale == 0.0)
            return Error{ErrorCode::invalid_field}.at("logits_scaling").because("divides the logits and is 0");
        if (!(config.score_scale > 0.0))
            return Error{ErrorCode::invalid_field}.at("attention_multiplier").because("must be above 0");
        config.attention_out_bias = config.attention_bias;
        detail::leave_out_windows(config);
        return {};
    }
};

static_assert(ModelArchitecture<Granite>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
