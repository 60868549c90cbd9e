// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A file's tensor that encodes part of a parameter: the parameter's name, and whether it holds the values themselves
/// or only scales, zero points and codebooks.
struct EncodedName {
    std::string parameter;
    bool holds_values = false;
};

/// The parameter that a tensor of a quantised checkpoint belongs to; nothing for an ordinary name.
///
/// Source  bitsandbytes 0.45 functional.py (QuantState.as_dict) and nn/modules.py (SCB, weight_format); AutoGPTQ and
///         AutoAWQ (qweight, qzeros, scales, g_idx); deepseek-v3 (weight_scale_inv); compressed-tensors (weight_packed,
///         ...); gpt-oss (_blocks, _scales); transformers 5 (stacked experts' _scale_inv)
[[nodiscard]] inline std::optional<EncodedName> encoded_name(std::string_view name) {
    // Of "x.weight.absmax" and its like, the parameter is what stands before.
    constexpr std::array<std::string_view, 5> inner{".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map",
                                                    ".quant_state."};
    for (auto const mark : inner) {
        auto const at = name.rfind(mark);
        bool const is_last = at != std::string_view::npos && (mark.back() == '.' || at + mark.size() == name.size());
        if (is_last) return EncodedName{std::string(name.substr(0, at)), false};
    }
    auto const dot = name.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    auto const last = name.substr(dot + 1);
    struct Suffix {
        std::string_view text;
        bool holds_values;
    };
    // Siblings of a module's weight.
    constexpr std::array<Suffix, 20> siblings{{{"qweight", true},
                                               {"weight_packed", true},
                                               {"qzeros", false},
                                               {"scales", false},
                                               {"g_idx", false},
                                               {"SCB", false},
                                               {"weight_format", false},
                                               {"weight_scale_inv", false},
                                               {"weight_scale", false},
                                               {"weight_scale_2", false},
                                               {"weight_shape", false},
                                               {"weight_zero_point", false},
                                               {"weight_g_idx", false},
                                               {"weight_global_scale", false},
                                               {"input_scale", false},
                                               {"input_global_scale", false},
                                               {"input_zero_point", false},
                                               {"activation_scale", false},
                                               {"output_scale", false},
                                               {"act_scale", false}}};
    for (auto const& sibling : siblings) {
        if (last == sibling.text)
            return EncodedName{std::string(name.substr(0, dot)) + ".weight", sibling.holds_values};
    }
    // Extensions of a parameter's own name.
    constexpr std::array<Suffix, 4> extensions{
        {{"_blocks", true}, {"_scales", false}, {"_scale_inv", false}, {"_scale", false}}};
    for (auto const& extension : extensions) {
        bool const ends =
            last.size() > extension.text.size() && last.substr(last.size() - extension.text.size()) == extension.text;
        if (ends)
            return EncodedName{std::string(name.substr(0, name.size() - extension.text.size())),
                               extension.holds_values};
    }
    return std::nullopt;
}

/// True for tensors that published files hold and that are no part of the model: recomputed tables, masks, KV scales.
///
/// Source  transformers 4.57, `_keys_to_ignore_on_load_unexpected` of the families and modeling_utils.py (inv_freq);
///         llama.cpp (rope_freqs, rope_factors)
[[nodiscard]] inline bool is_harmless_extra(std::string_view name) {
    constexpr std::array<std::string_view, 15> endings{"rotary_emb.inv_freq",
                                                       "rotary_embedding.inv_freq",
                                                       ".attn.bias",
                                                       ".attn.masked_bias",
                                                       ".attention.bias",
                                                       ".attention.masked_bias",
                                                       ".position_ids",
                                                       "rope_freqs.weight",
                                                       "rope_factors_long.weight",
                                                       "rope_factors_short.weight",
                                                       ".attn_rot_embd",
                                                       ".k_scale",
                                                       ".v_scale",
                                                       ".kv_scale",
                                                       ".attn.rotary.inv_freq"};
    for (auto const ending : endings) {
        auto const bare = ending.front() == '.' ? ending.substr(1) : ending;
        if (name == bare || name == ending) return true;
        if (name.size() > ending.size() && name.substr(name.size() - ending.size()) == ending) return true;
    }
    return false;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
