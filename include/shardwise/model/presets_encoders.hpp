// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/presets_classic.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

[[nodiscard]] constexpr ModelConfig xlm_roberta_preset(char const* name, std::int64_t hidden_size, std::int64_t layers,
                                                       std::int64_t heads) {
    auto config = classic_preset("xlm-roberta", name, Dtype::f32, 250002, hidden_size, layers, heads, 514);
    config.model_class = "XLMRobertaModel";
    config.own.set("type_vocab_size", 1);
    return config;
}

[[nodiscard]] constexpr ModelConfig distilbert_preset() {
    auto config = classic_preset("distilbert", "DistilBERT-base", Dtype::f32, 30522, 768, 6, 12, 512);
    config.model_class = "DistilBertModel";
    return config;
}

[[nodiscard]] constexpr ModelConfig mpnet_preset() {
    auto config = classic_preset("mpnet", "MPNet-base", Dtype::f32, 30527, 768, 12, 12, 514);
    config.model_class = "MPNetModel";
    config.position_buckets = 32;
    return config;
}

[[nodiscard]] constexpr ModelConfig modernbert_preset(char const* name, std::int64_t hidden_size,
                                                      std::int64_t intermediate_size, std::int64_t layers,
                                                      std::int64_t heads) {
    auto config = classic_preset("modernbert", name, Dtype::f32, 50368, hidden_size, layers, heads, 8192);
    config.model_class = "ModernBertModel";
    config.intermediate_size = intermediate_size;
    config.sliding_window = 128;
    config.own.set("classifier_pooling", 1);  // the mean
    config.rope.theta = 160000.0;
    config.rope.local_theta = 10000.0;
    return config;
}

}  // namespace detail

namespace presets {

inline constexpr auto xlm_roberta_base = detail::xlm_roberta_preset("XLM-RoBERTa-base", 768, 12, 12);
inline constexpr auto xlm_roberta_large = detail::xlm_roberta_preset("XLM-RoBERTa-large", 1024, 24, 16);
inline constexpr auto distilbert_base = detail::distilbert_preset();
inline constexpr auto mpnet_base = detail::mpnet_preset();
inline constexpr auto modernbert_base = detail::modernbert_preset("ModernBERT-base", 768, 1152, 22, 12);
inline constexpr auto modernbert_large = detail::modernbert_preset("ModernBERT-large", 1024, 2624, 28, 16);

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
