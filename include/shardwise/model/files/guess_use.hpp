// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/tensor_use.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a tensor of a model that no family describes is for, where it is known to be a product's weight or a table: by the name of
/// its module in GGUF files or in most of transformers' classes. Families say it themselves: only trees that somebody wrote down
/// (`--tree`) and files without a config, whose names are all that is known, ask this. No name says what a family that has it does not
/// (tests/model/arch/aliases_test.cpp).
///
/// Source  gguf-py 0.17 gguf/tensor_mapping.py
[[nodiscard]] constexpr TensorUse guess_use(TensorUse known, std::string_view module) {
    struct Row {
        std::string_view name;
        TensorUse use;
    };
    constexpr Row products[]{
        {"attn_q", TensorUse::attention_q},
        {"q_proj", TensorUse::attention_q},
        {"attn_k", TensorUse::attention_k},
        {"k_proj", TensorUse::attention_k},
        {"attn_v", TensorUse::attention_v},
        {"v_proj", TensorUse::attention_v},
        {"attn_qkv", TensorUse::attention_qkv},
        {"qkv_proj", TensorUse::attention_qkv},
        {"c_attn", TensorUse::attention_qkv},
        {"query_key_value", TensorUse::attention_qkv},
        {"attn_output", TensorUse::attention_output},
        {"o_proj", TensorUse::attention_output},
        {"out_proj", TensorUse::attention_output},
        {"ffn_up", TensorUse::ffn_up},
        {"up_proj", TensorUse::ffn_up},
        {"ffn_gate", TensorUse::ffn_up},
        {"gate_proj", TensorUse::ffn_up},
        {"gate_up_proj", TensorUse::ffn_up},
        {"fc1", TensorUse::ffn_up},
        {"ffn_down", TensorUse::ffn_down},
        {"down_proj", TensorUse::ffn_down},
        {"fc2", TensorUse::ffn_down},
        {"ffn_gate_inp", TensorUse::router},
        {"gate", TensorUse::router},
    };
    if (known == TensorUse::embedding) {
        bool const is_side_table =
            module.find("position") != std::string_view::npos || module.starts_with("token_type");
        return is_side_table ? TensorUse::side_table : known;
    }
    if (known != TensorUse::linear) return known;
    auto stem = module;
    for (std::string_view const suffix : {"_exps", "_shexp"})
        if (stem.ends_with(suffix)) stem.remove_suffix(suffix.size());
    for (auto const& row : products) {
        // What gates a shared expert routes nothing (ffn_gate_inp_shexp).
        if (row.name == (row.use == TensorUse::router ? module : stem)) return row.use;
    }
    return known;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
