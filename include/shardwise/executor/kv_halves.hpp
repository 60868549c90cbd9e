// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/packed_weight.hpp>
#include <shardwise/executor/stored_parameter.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/tensor.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A tensor of a GGUF file that is half of a parameter.
struct GgufHalf {
    GgmlType type = GgmlType::f32;
    Shape shape{};
    std::span<std::byte const> data;
};

/// The two tensors in which newer files hold a layer's kv_b: attn_k_b and attn_v_b.
using KvHalves = std::array<GgufHalf, 2>;

/// Which of KvHalves a tensor is by its name in the file, if any.
[[nodiscard]] inline std::optional<std::size_t> kv_half(std::string_view name) {
    if (name.find(".attn_k_b.") != std::string_view::npos) return 0;
    if (name.find(".attn_v_b.") != std::string_view::npos) return 1;
    return std::nullopt;
}

/// The parameter that both are: of each head the rows of its keys, which the file has turned, and those of its values.
///
/// Shapes  keys [heads, kv_lora_rank, qk_nope_head_dim], values [heads, v_head_dim, kv_lora_rank]
/// Errors  malformed_file where one is missing or of another shape; unsupported for a type that cannot be decoded
/// Source  llama.cpp convert_hf_to_gguf.py (DeepseekV2Model.modify_tensors)
[[nodiscard]] inline Result<StoredParameter> join_kv_halves(ModelConfig const& config, std::string_view name,
                                                            KvHalves const& halves) {
    auto const& keys = halves[0];
    auto const& values = halves[1];
    Error error{ErrorCode::malformed_file};
    error.in(name);
    if (keys.data.empty() || values.data.empty())
        return error.because("is stored as attn_k_b and attn_v_b, of which the file has one only");
    if (!can_decode(keys.type) || !can_decode(values.type))
        return Error{ErrorCode::unsupported}.in(name).because("has a GGUF type that cannot be decoded yet");
    bool const fits = keys.shape == Shape{config.heads, config.kv_lora_rank, config.qk_nope_head_dim} &&
                      values.shape == Shape{config.heads, config.v_head_dim, config.kv_lora_rank};
    if (!fits)
        return error.because("is stored as attn_k_b and attn_v_b, whose shapes are not those of the model's heads");
    PackedWeight weight;
    weight.form = PackedForm::kv_heads;
    weight.type = keys.type;
    weight.value_type = values.type;
    weight.data = keys.data;
    weight.scales = values.data;
    weight.key_rows = config.qk_nope_head_dim;
    weight.value_rows = config.v_head_dim;
    weight.inputs = config.kv_lora_rank;
    weight.outputs = config.heads * (config.qk_nope_head_dim + config.v_head_dim);
    StoredParameter parameter;
    // Blocks run along the keys of a head in one of them and along the latent in the other: only plain types are kept.
    auto const format = weight_format(keys.type);
    bool const is_kept = keys.type == values.type && format && traits(*format).block_elements == 1;
    parameter.format = is_kept ? *format : WeightFormat::f32;
    parameter.packed.push_back(weight);
    return parameter;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
