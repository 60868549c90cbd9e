// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/deepseek_v3.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Kimi K2: DeepSeek-V3 with other sizes, under a model_type of its own. To llama.cpp it is deepseek2.
///
/// Source  https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/config.json
struct KimiK2 : DeepseekV3 {
    static constexpr std::string_view name = "kimi_k2";
    static constexpr std::string_view gguf_name{};
};

static_assert(ModelArchitecture<KimiK2>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
