// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/activation_names.hpp>
#include <shardwise/model/files/file_family.hpp>
#include <shardwise/model/files/gguf.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// llama.cpp's number for what a router does with its scores.
///
/// Source  llama.cpp 0c1e570, src/llama-hparams.h (llama_expert_gating_func_type)
[[nodiscard]] constexpr std::int64_t gguf_gating(RouterScore score) {
    switch (score) {
        case RouterScore::softmax:
        case RouterScore::sparse_mixer:
            return 1;
        case RouterScore::sigmoid:
            return 2;
        case RouterScore::softmax_chosen:
            return 3;
    }
    return 0;
}

/// A key whose value changes what a model computes, and the value that changes nothing.
struct GgufScale {
    std::string_view key;
    double neutral;
};

/// Keys that families of llama.cpp have and that ours either read or must find neutral.
///
/// Source  llama.cpp 0c1e570, src/llama-arch.cpp
inline constexpr GgufScale gguf_scales[] = {
    {"logit_scale", 1.0},
    {"embedding_scale", 1.0},
    {"residual_scale", 1.0},
    {"attention.scale", 0.0},
    {"attention.clamp_kqv", 0.0},
    {"attention.max_alibi_bias", 8.0},
    {"attention.temperature_scale", 0.0},
    {"attn_logit_softcapping", 0.0},
    {"final_logit_softcapping", 0.0},
    {"rope.scaling.yarn_ext_factor", 1.0},
};

/// Leaves out the layers that predict further tokens, which files count and have after the model's own.
///
/// Errors  invalid_field where no others are left
[[nodiscard]] inline Result<> leave_out_further_layers(GgufHeader const& header, std::string_view path,
                                                       ModelConfig& config) {
    auto const key = std::string(header.metadata.text("general.architecture")) + ".nextn_predict_layers";
    auto const value = header.metadata.find(key);
    auto const count = value && value->integer ? *value->integer : 0;
    if (count >= 0 && count < config.layers) {
        config.layers -= count;
        return {};
    }
    return Error{ErrorCode::invalid_field}
        .in(path)
        .at(key)
        .because("leaves no layers of the model's own")
        .got(count)
        .between(0, config.layers - 1);
}

/// Refuses what a GGUF file states of a model and the family does not do. `config` is as the file describes it, not yet
/// completed; one that cannot be completed is refused where the model is described.
///
/// Errors  unsupported with the key
[[nodiscard]] inline Result<> check_gguf_values(FileFamily const& family, GgufHeader const& header,
                                                std::string_view path, ModelConfig config) {
    if (!family.complete(config)) return {};
    auto const prefix = std::string(header.metadata.text("general.architecture")) + ".";
    auto const is_read = [&family](std::string_view key) {
        return std::any_of(family.fields.begin(), family.fields.end(),
                           [key](Field const& field) { return field.gguf == key; });
    };
    auto const refused = [&](std::string_view key) {
        return Error{ErrorCode::unsupported}.in(path).at(prefix + std::string(key));
    };
    auto const stated = [&](std::string_view key) -> std::optional<std::int64_t> {
        auto const value = header.metadata.find(prefix + std::string(key));
        return value ? value->integer : std::nullopt;
    };
    if (config.kv_lora_rank == 0) {
        for (std::string_view const key : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
            auto const value = stated(key);
            if (is_read(key) || !value || *value == config.head_dim) continue;
            return refused(key).because("is not the width of the family's heads").got(*value).expected(config.head_dim);
        }
    }
    auto const gating = gguf_gating(config.router_score);
    if (auto const value = stated("expert_gating_func"); value && *value != 0 && *value != gating)
        return refused("expert_gating_func")
            .because("is not what the family's router does")
            .got(*value)
            .expected(gating);
    // llama.cpp's files name it where they may have one or another (modern-bert).
    if (auto const named = header.metadata.text(prefix + "hidden_activation"); !named.empty()) {
        auto const kind = parse_activation(named);
        if (!kind || *kind != config.activation)
            return refused("hidden_activation").because("is not the activation that the family has");
    }
    bool const is_encoder = !family.gguf_class.empty() || config.position_buckets > 0;
    if (!is_encoder && stated("attention.causal") == 0)
        return refused("attention.causal").because("is false, and this family attends to earlier tokens only");
    // Routing by groups, and another base of rotations for layers with a window, where a family has neither.
    if (auto const groups = stated("expert_group_count"); groups && *groups > 1 && !is_read("expert_group_count"))
        return refused("expert_group_count")
            .because("routes by groups of experts, which this family does not")
            .got(*groups);
    if (auto const base = header.metadata.find(prefix + "rope.freq_base_swa");
        base && !is_read("rope.freq_base_swa") && base->real != config.rope.theta)
        return refused("rope.freq_base_swa")
            .because("rotates layers with a window otherwise, which this family does not");
    for (auto const& scale : gguf_scales) {
        auto const value = header.metadata.find(prefix + std::string(scale.key));
        if (is_read(scale.key) || !value || width_of(value->type) == 0 || value->real == scale.neutral) continue;
        return refused(scale.key).because("changes what is computed in a way that this family is not described with");
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
