// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/presets_llama.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The experts and attention ranks of a DeepSeek, whose heads are all of one geometry.
struct DeepseekSizes {
    std::int64_t experts;
    std::int64_t experts_per_token;
    std::int64_t expert_width;
    std::int64_t shared_experts;
    std::int64_t first_dense_layers;
    std::int64_t q_lora_rank;
    std::int64_t expert_groups;
    std::int64_t kept_expert_groups;
    double routed_scale;
};

[[nodiscard]] constexpr ModelConfig deepseek_preset(char const* model_type, char const* name, DecoderSizes sizes,
                                                    DeepseekSizes const& own) {
    sizes.head_dim = 0;
    auto config = decoder_preset(model_type, name, Dtype::bf16, sizes, 10000.0, 1e-6);
    config.experts = own.experts;
    config.experts_per_token = own.experts_per_token;
    config.expert_intermediate_size = own.expert_width;
    config.own.set("n_shared_experts", own.shared_experts);
    config.own.set("first_k_dense_replace", own.first_dense_layers);
    config.q_lora_rank = own.q_lora_rank;
    config.expert_groups = own.expert_groups;
    config.kept_expert_groups = own.kept_expert_groups;
    config.routed_scale = own.routed_scale;
    config.kv_lora_rank = 512;
    config.qk_nope_head_dim = 128;
    config.qk_rope_head_dim = 64;
    config.v_head_dim = 128;
    config.rope.kind = RopeKind::yarn;
    config.rope.factor = 40.0;
    config.rope.original_max_positions = 4096;
    auto const is_v3 = config.model_type.view() != "deepseek_v2";
    config.rope.mscale = is_v3 ? 1.0 : 0.707;
    config.rope.mscale_all_dim = config.rope.mscale;
    config.norm_expert_weights = is_v3;
    config.interleaved_rope = is_v3;
    // V3, R1 and Kimi K2 are published in fp8: quantization_config of their config.json, README_WEIGHTS.md beside it.
    if (is_v3) config.quant = QuantScheme::fp8_blocks();
    if (!is_v3) config.own.set("topk_method", own.expert_groups > 1 ? 1 : 0);
    return config;
}

[[nodiscard]] constexpr ModelConfig kimi_k2_preset() {
    auto config = deepseek_preset("kimi_k2", "Kimi-K2", {163840, 7168, 18432, 61, 64, 64, 0, 131072},
                                  {384, 8, 2048, 1, 1, 1536, 1, 1, 2.827});
    config.rope.theta = 50000.0;
    config.rope.factor = 32.0;
    config.rope.beta_fast = 1.0;
    return config;
}

}  // namespace detail

namespace presets {

inline constexpr auto deepseek_v2_lite = detail::deepseek_preset(
    "deepseek_v2", "DeepSeek-V2-Lite", {102400, 2048, 10944, 27, 16, 16, 0, 163840}, {64, 6, 1408, 2, 1, 0, 1, 1, 1.0});
inline constexpr auto deepseek_v2 =
    detail::deepseek_preset("deepseek_v2", "DeepSeek-V2", {102400, 5120, 12288, 60, 128, 128, 0, 163840},
                            {160, 6, 1536, 2, 1, 1536, 8, 3, 16.0});
inline constexpr auto deepseek_v3 =
    detail::deepseek_preset("deepseek_v3", "DeepSeek-V3", {129280, 7168, 18432, 61, 128, 128, 0, 163840},
                            {256, 8, 2048, 1, 3, 1536, 8, 4, 2.5});

inline constexpr auto kimi_k2 = detail::kimi_k2_preset();

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
