// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/qwen2_vl_text.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The text model of Qwen2.5-VL, which is that of Qwen2-VL. To llama.cpp both are qwen2vl.
///
/// Source  transformers 4.57 models/qwen2_5_vl/modeling_qwen2_5_vl.py (Qwen2_5_VLTextModel)
struct Qwen25VlText : Qwen2VlText {
    static constexpr std::string_view name = "qwen2_5_vl_text";
    static constexpr std::string_view gguf_name{};
    static constexpr std::string_view text_part_of = "qwen2_5_vl";
    static constexpr Version version{"Qwen2_5_VLVisionBlock",
                                     {.prefix = "Qwen2_5_VL",
                                      .classes = classes,
                                      .norm_class = "Qwen2RMSNorm",
                                      .model_suffix = "TextModel",
                                      .has_layer_rotary = true,
                                      .mlp_class = "Qwen2MLP"}};

    static constexpr Result<> complete(ModelConfig& config) { return complete_as(config, version); }
    static constexpr ModuleTree tree(auto const& config) { return tree_as(config, version); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, version.layout, tree);
    }
};

static_assert(ModelArchitecture<Qwen25VlText>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
