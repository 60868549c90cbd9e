// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/presets_llama.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The transformers before llama: as many key-value heads as heads, tied embeddings.
[[nodiscard]] constexpr ModelConfig classic_preset(char const* model_type, char const* name, Dtype dtype,
                                                   std::int64_t vocab_size, std::int64_t hidden_size,
                                                   std::int64_t layers, std::int64_t heads,
                                                   std::int64_t max_positions) {
    auto config = tied(decoder_preset(
        model_type, name, dtype,
        {vocab_size, hidden_size, 4 * hidden_size, layers, heads, heads, hidden_size / heads, max_positions}, 10000.0,
        1e-5));
    config.activation = ActivationKind::gelu;
    return config;
}

[[nodiscard]] constexpr ModelConfig gpt2_preset(char const* name, std::int64_t hidden_size, std::int64_t layers,
                                                std::int64_t heads) {
    auto config = classic_preset("gpt2", name, Dtype::f32, 50257, hidden_size, layers, heads, 1024);
    config.activation = ActivationKind::gelu_new;
    return config;
}

[[nodiscard]] constexpr ModelConfig opt_preset(char const* name, std::int64_t hidden_size, std::int64_t layers,
                                               std::int64_t heads) {
    auto config = classic_preset("opt", name, Dtype::f16, 50272, hidden_size, layers, heads, 2048);
    config.activation = ActivationKind::relu;
    config.attention_bias = true;
    return config;
}

/// The one OPT that projects its embeddings and norms after its blocks.
[[nodiscard]] constexpr ModelConfig opt_350m_preset() {
    auto config = opt_preset("OPT-350M", 1024, 24, 16);
    config.own.set("word_embed_proj_dim", 512);
    config.own.set("do_layer_norm_before", 0);
    return config;
}

[[nodiscard]] constexpr ModelConfig neox_preset(char const* name, std::int64_t vocab_size, std::int64_t hidden_size,
                                                std::int64_t layers, std::int64_t heads) {
    auto config = classic_preset("gpt_neox", name, Dtype::f16, vocab_size, hidden_size, layers, heads, 2048);
    config.tie_word_embeddings = false;
    config.attention_bias = true;
    config.rope.partial_rotary_factor = 0.25;
    return config;
}

[[nodiscard]] constexpr ModelConfig neox_20b_preset() {
    auto config = neox_preset("GPT-NeoX-20B", 50432, 6144, 44, 64);
    config.activation = ActivationKind::gelu_fast;
    return config;
}

[[nodiscard]] constexpr ModelConfig bloom_preset(char const* name, Dtype dtype, std::int64_t hidden_size,
                                                 std::int64_t layers, std::int64_t heads) {
    return classic_preset("bloom", name, dtype, 250880, hidden_size, layers, heads, 2048);
}

[[nodiscard]] constexpr ModelConfig falcon_preset(char const* name, std::int64_t hidden_size, std::int64_t layers,
                                                  std::int64_t heads) {
    auto config = classic_preset("falcon", name, Dtype::bf16, 65024, hidden_size, layers, heads, 2048);
    config.kv_heads = 1;
    return config;
}

[[nodiscard]] constexpr ModelConfig falcon_40b_preset() {
    auto config = falcon_preset("Falcon-40B", 8192, 60, 128);
    config.own.set("new_decoder_architecture", 1);
    config.kv_heads = 8;
    return config;
}

/// Phi-1.5 and Phi-2.
[[nodiscard]] constexpr ModelConfig phi_preset(char const* name, std::int64_t hidden_size, std::int64_t layers,
                                               double rotary_part) {
    auto config = classic_preset("phi", name, Dtype::f16, 51200, hidden_size, layers, 32, 2048);
    config.tie_word_embeddings = false;
    config.activation = ActivationKind::gelu_new;
    config.rope.partial_rotary_factor = rotary_part;
    return config;
}

/// The encoder with its pooler.
[[nodiscard]] constexpr ModelConfig bert_preset(char const* name, std::int64_t hidden_size, std::int64_t layers,
                                                std::int64_t heads) {
    auto config = classic_preset("bert", name, Dtype::f32, 30522, hidden_size, layers, heads, 512);
    config.model_class = "BertModel";
    config.norm_epsilon = 1e-12;
    return config;
}

[[nodiscard]] constexpr ModelConfig roberta_base_preset() {
    auto config = classic_preset("roberta", "RoBERTa-base", Dtype::f32, 50265, 768, 12, 12, 514);
    config.model_class = "RobertaModel";
    config.own.set("type_vocab_size", 1);
    return config;
}

[[nodiscard]] constexpr ModelConfig t5_preset(char const* name, std::int64_t hidden_size,
                                              std::int64_t intermediate_size, std::int64_t layers, std::int64_t heads) {
    auto config = classic_preset("t5", name, Dtype::f32, 32128, hidden_size, layers, heads, 512);
    config.intermediate_size = intermediate_size;
    config.head_dim = 64;
    config.decoder_start = 0;
    config.position_buckets = 32;
    config.norm_epsilon = 1e-6;
    config.activation = ActivationKind::relu;
    return config;
}

/// Flan-T5: a gated MLP and a head of its own.
[[nodiscard]] constexpr ModelConfig flan_t5_preset(char const* name, std::int64_t hidden_size,
                                                   std::int64_t intermediate_size, std::int64_t layers,
                                                   std::int64_t heads) {
    auto config = t5_preset(name, hidden_size, intermediate_size, layers, heads);
    config.own.set("is_gated_act", 1);
    config.activation = ActivationKind::gelu_new;
    config.tie_word_embeddings = false;
    return config;
}

[[nodiscard]] constexpr ModelConfig mt5_preset(char const* name, std::int64_t hidden_size,
                                               std::int64_t intermediate_size, std::int64_t layers,
                                               std::int64_t heads) {
    auto config = flan_t5_preset(name, hidden_size, intermediate_size, layers, heads);
    config.model_type = "mt5";
    config.vocab_size = 250112;
    config.max_positions = 0;
    return config;
}

}  // namespace detail

namespace presets {

inline constexpr auto gpt2 = detail::gpt2_preset("GPT-2", 768, 12, 12);
inline constexpr auto gpt2_medium = detail::gpt2_preset("GPT-2 medium", 1024, 24, 16);
inline constexpr auto gpt2_large = detail::gpt2_preset("GPT-2 large", 1280, 36, 20);
inline constexpr auto gpt2_xl = detail::gpt2_preset("GPT-2 XL", 1600, 48, 25);

inline constexpr auto opt_125m = detail::opt_preset("OPT-125M", 768, 12, 12);
inline constexpr auto opt_350m = detail::opt_350m_preset();
inline constexpr auto opt_1_3b = detail::opt_preset("OPT-1.3B", 2048, 24, 32);
inline constexpr auto opt_6_7b = detail::opt_preset("OPT-6.7B", 4096, 32, 32);
inline constexpr auto opt_13b = detail::opt_preset("OPT-13B", 5120, 40, 40);
inline constexpr auto opt_30b = detail::opt_preset("OPT-30B", 7168, 48, 56);
inline constexpr auto opt_66b = detail::opt_preset("OPT-66B", 9216, 64, 72);

inline constexpr auto gpt_neox_20b = detail::neox_20b_preset();
inline constexpr auto pythia_160m = detail::neox_preset("Pythia-160M", 50304, 768, 12, 12);
inline constexpr auto pythia_6_9b = detail::neox_preset("Pythia-6.9B", 50432, 4096, 32, 32);

inline constexpr auto bloom_560m = detail::bloom_preset("BLOOM-560M", Dtype::f16, 1024, 24, 16);
inline constexpr auto bloom_7b1 = detail::bloom_preset("BLOOM-7B1", Dtype::f16, 4096, 30, 32);
inline constexpr auto bloom_176b = detail::bloom_preset("BLOOM-176B", Dtype::bf16, 14336, 70, 112);

inline constexpr auto falcon_7b = detail::falcon_preset("Falcon-7B", 4544, 32, 71);
inline constexpr auto falcon_40b = detail::falcon_40b_preset();

inline constexpr auto phi_1_5 = detail::phi_preset("Phi-1.5", 2048, 24, 0.5);
inline constexpr auto phi_2 = detail::phi_preset("Phi-2", 2560, 32, 0.4);

inline constexpr auto bert_base = detail::bert_preset("BERT-base", 768, 12, 12);
inline constexpr auto bert_large = detail::bert_preset("BERT-large", 1024, 24, 16);
inline constexpr auto roberta_base = detail::roberta_base_preset();

inline constexpr auto t5_small = detail::t5_preset("T5-small", 512, 2048, 6, 8);
inline constexpr auto t5_base = detail::t5_preset("T5-base", 768, 3072, 12, 12);
inline constexpr auto t5_large = detail::t5_preset("T5-large", 1024, 4096, 24, 16);
inline constexpr auto flan_t5_xl = detail::flan_t5_preset("Flan-T5-XL", 2048, 5120, 24, 32);
inline constexpr auto mt5_small = detail::mt5_preset("mT5-small", 512, 1024, 8, 6);
inline constexpr auto mt5_base = detail::mt5_preset("mT5-base", 768, 2048, 12, 12);

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
