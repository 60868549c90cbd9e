// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/t5.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// UMT5: mT5 with a table of relative positions in each block. To llama.cpp it is t5, too: files with the table of a second block are
/// its own.
///
/// Source  transformers 4.57 models/umt5/modeling_umt5.py, configuration_umt5.py
struct Umt5 : detail::T5Family {
    static constexpr std::string_view name = "umt5";
    static constexpr std::string_view gguf_name = "t5";
    static constexpr std::string_view gguf_marker = "enc.blk.1.attn_rel_b.weight";

    static constexpr auto fields = detail::t5_fields({.vocabulary = 250112,
                                                      .width = 1024,
                                                      .layers = 8,
                                                      .heads = 6,
                                                      .activation = ActivationKind::gelu_new,
                                                      .is_gated = true});

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known =
                detail::check_class(config, {"UMT5ForConditionalGeneration", "UMT5Model", "UMT5EncoderModel"});
            !known)
            return known;
        return complete_t5(config);
    }
    static constexpr ModuleTree tree(auto const& config) {
        return t5_tree(config, "UMT5", detail::T5Tables::of_each_block);
    }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return t5_program(config, tree, detail::T5Tables::of_each_block);
    }
};

static_assert(ModelArchitecture<Umt5>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
