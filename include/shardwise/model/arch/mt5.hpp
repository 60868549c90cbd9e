// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/t5.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// mT5: T5 1.1 over the vocabulary of a hundred languages. To llama.cpp it is t5.
///
/// Source  transformers 4.57 models/mt5/modeling_mt5.py, configuration_mt5.py
struct Mt5 : detail::T5Family {
    static constexpr std::string_view name = "mt5";
    static constexpr std::string_view gguf_name{};

    static constexpr auto fields = detail::t5_fields({.vocabulary = 250112,
                                                      .width = 1024,
                                                      .layers = 8,
                                                      .heads = 6,
                                                      .activation = ActivationKind::gelu_new,
                                                      .is_gated = true,
                                                      .is_tied = false});

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known =
                detail::check_class(config, {"MT5ForConditionalGeneration", "MT5Model", "MT5EncoderModel"});
            !known)
            return known;
        // transformers 5 ties every head of this class, and scales the outputs of none.
        constexpr std::string_view version = "transformers_version";
        if (config.own.has(version) && config.own[version] >= 5) config.own.set("scale_decoder_outputs", 0);
        return complete_t5(config);
    }
    static constexpr ModuleTree tree(auto const& config) { return t5_tree(config, "MT5"); }
};

static_assert(ModelArchitecture<Mt5>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
