// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/model/field.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How llama.cpp stores and quantises what a family's checkpoints hold in another way. A family that differs from the usual
/// has `static constexpr GgufForm gguf_form{...}`.
///
/// Source  llama.cpp convert_hf_to_gguf.py (the family's class), src/llama-quant.cpp
struct GgufForm {
    /// Rows of queries and keys stand in the order of an interleaved rotation: the converter's `permute`.
    bool permutes_rope_rows = false;
    /// Rows of gate and up, which alternate in the model's parameter, are tensors of their own.
    bool splits_gate_and_up = false;
    /// A part of the names of tensors that hold a parameter's last rows, where another tensor holds those before them ("ffn_up_exps").
    std::string_view last_rows{};
    /// Mixtures raise fewer of its tensors: the output is Q8_0, ffn_down and the attention's output stay near the usual type.
    bool mixes_lightly = false;
};

/// A key that the family's configuration class has, in transformers 4 or 5, and that this library does not read although it
/// may change the model. A family that has such keys lists them as `unread_keys`.
struct UnreadKey {
    std::string_view key;
    /// The class's default, with which the model is the one that is described: a number, true, false, a
    /// quoted word, or {} (nothing in it).
    std::string_view normal;
};

/// What loaders need to know of a family beyond a model's tree and program: constant tables, reached through Model::family.
struct Family {
    /// config.json's model_type.
    std::string_view name;
    std::string_view gguf_name;
    /// Names of checkpoint files that differ from the tree's.
    Span<NameAlias const> aliases;
    GgufForm gguf_form;
    /// Numbers of layers that GGUF files have in their metadata: their key, and the name in the model with `{}`.
    Span<NameAlias const> gguf_numbers;
    /// The beginning of the names of parameters that files may leave out; empty: none.
    std::string_view optional_prefix;
    /// The base model's name in the model with a head, where it is not "model" (transformers' base_model_prefix): files of one have it
    /// before their names, and files of the other do not.
    std::string_view base_name;
    /// Ends of names in checkpoint files that differ from the tree's, whatever stands before them.
    Span<NameAlias const> ending_aliases;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
