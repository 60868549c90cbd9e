// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/literal.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/model/presets_classic.hpp>
#include <shardwise/model/presets_deepseek.hpp>
#include <shardwise/model/presets_encoders.hpp>
#include <shardwise/model/presets_gemma.hpp>
#include <shardwise/model/presets_llama.hpp>
#include <shardwise/model/presets_near_llama.hpp>
#include <shardwise/model/presets_others.hpp>
#include <shardwise/model/presets_phi.hpp>
#include <shardwise/model/presets_qwen.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A well-known model under the names that people call it.
struct ModelPreset {
    std::string_view name;
    ModelConfig const* config;
    std::array<std::string_view, 2> aliases;

    constexpr ModelPreset(Literal preset_name, ModelConfig const* preset_config, Literal alias = {},
                          Literal second_alias = {})
        : name(preset_name), config(preset_config), aliases{alias, second_alias} {}
};

/// Every preset, by family. The same constants are in `presets`.
inline constexpr std::array model_presets{
    ModelPreset{"llama-2-7b", &presets::llama_2_7b, "llama-2-7b-hf"},
    ModelPreset{"llama-2-13b", &presets::llama_2_13b, "llama-2-13b-hf"},
    ModelPreset{"llama-2-70b", &presets::llama_2_70b, "llama-2-70b-hf"},
    ModelPreset{"llama-3-8b", &presets::llama_3_8b, "meta-llama-3-8b"},
    ModelPreset{"llama-3-70b", &presets::llama_3_70b, "meta-llama-3-70b"},
    ModelPreset{"llama-3.1-8b", &presets::llama_3_1_8b, "meta-llama-3.1-8b"},
    ModelPreset{"llama-3.1-70b", &presets::llama_3_1_70b, "meta-llama-3.1-70b", "llama-3.3-70b"},
    ModelPreset{"llama-3.1-405b", &presets::llama_3_1_405b, "meta-llama-3.1-405b"},
    ModelPreset{"llama-3.2-1b", &presets::llama_3_2_1b},
    ModelPreset{"llama-3.2-3b", &presets::llama_3_2_3b},
    ModelPreset{"tinyllama-1.1b", &presets::tinyllama_1_1b, "tinyllama"},
    ModelPreset{"smollm2-135m", &presets::smollm2_135m},
    ModelPreset{"smollm2-1.7b", &presets::smollm2_1_7b},
    ModelPreset{"yi-6b", &presets::yi_6b},
    ModelPreset{"mistral-7b", &presets::mistral_7b, "mistral-7b-v0.1"},
    ModelPreset{"mistral-7b-v0.3", &presets::mistral_7b_v0_3},
    ModelPreset{"mistral-nemo-12b", &presets::mistral_nemo_12b, "mistral-nemo"},
    ModelPreset{"mixtral-8x7b", &presets::mixtral_8x7b, "mixtral-8x7b-v0.1"},
    ModelPreset{"mixtral-8x22b", &presets::mixtral_8x22b, "mixtral-8x22b-v0.1"},
    ModelPreset{"qwen2.5-0.5b", &presets::qwen2_5_0_5b},
    ModelPreset{"qwen2.5-1.5b", &presets::qwen2_5_1_5b},
    ModelPreset{"qwen2.5-3b", &presets::qwen2_5_3b},
    ModelPreset{"qwen2.5-7b", &presets::qwen2_5_7b},
    ModelPreset{"qwen2.5-14b", &presets::qwen2_5_14b},
    ModelPreset{"qwen2.5-32b", &presets::qwen2_5_32b},
    ModelPreset{"qwen2.5-72b", &presets::qwen2_5_72b},
    ModelPreset{"qwen3-0.6b", &presets::qwen3_0_6b},
    ModelPreset{"qwen3-1.7b", &presets::qwen3_1_7b},
    ModelPreset{"qwen3-4b", &presets::qwen3_4b},
    ModelPreset{"qwen3-8b", &presets::qwen3_8b},
    ModelPreset{"qwen3-14b", &presets::qwen3_14b},
    ModelPreset{"qwen3-32b", &presets::qwen3_32b},
    ModelPreset{"qwen1.5-moe-a2.7b", &presets::qwen1_5_moe_a2_7b},
    ModelPreset{"qwen3-30b-a3b", &presets::qwen3_30b_a3b},
    ModelPreset{"qwen3-235b-a22b", &presets::qwen3_235b_a22b},
    ModelPreset{"qwen3-next-80b-a3b", &presets::qwen3_next_80b_a3b},
    ModelPreset{"gemma-2b", &presets::gemma_2b},
    ModelPreset{"gemma-7b", &presets::gemma_7b},
    ModelPreset{"gemma-2-2b", &presets::gemma_2_2b},
    ModelPreset{"gemma-2-9b", &presets::gemma_2_9b},
    ModelPreset{"gemma-2-27b", &presets::gemma_2_27b},
    ModelPreset{"gemma-3-1b", &presets::gemma_3_1b},
    ModelPreset{"gemma-3-4b", &presets::gemma_3_4b},
    ModelPreset{"gemma-3-12b", &presets::gemma_3_12b},
    ModelPreset{"gemma-3-27b", &presets::gemma_3_27b},
    ModelPreset{"phi-1.5", &presets::phi_1_5},
    ModelPreset{"phi-2", &presets::phi_2},
    ModelPreset{"phi-3-mini", &presets::phi_3_mini, "phi-3-mini-4k"},
    ModelPreset{"phi-3-medium", &presets::phi_3_medium, "phi-3-medium-4k"},
    ModelPreset{"phi-4", &presets::phi_4},
    ModelPreset{"phi-4-mini", &presets::phi_4_mini},
    ModelPreset{"gpt-oss-20b", &presets::gpt_oss_20b},
    ModelPreset{"gpt-oss-120b", &presets::gpt_oss_120b},
    ModelPreset{"deepseek-v2-lite", &presets::deepseek_v2_lite},
    ModelPreset{"deepseek-v2", &presets::deepseek_v2},
    ModelPreset{"deepseek-v3", &presets::deepseek_v3, "deepseek-r1"},
    ModelPreset{"granite-3.3-2b", &presets::granite_3_3_2b, "granite-3.3-2b-instruct"},
    ModelPreset{"granite-3.3-8b", &presets::granite_3_3_8b, "granite-3.3-8b-instruct"},
    ModelPreset{"command-r", &presets::command_r, "c4ai-command-r-v01"},
    ModelPreset{"olmo-2-7b", &presets::olmo_2_7b, "olmo-2-1124-7b"},
    ModelPreset{"olmo-3-7b", &presets::olmo_3_7b, "olmo-3-1025-7b"},
    ModelPreset{"exaone-4.0-1.2b", &presets::exaone_4_0_1_2b},
    ModelPreset{"glm-4-9b", &presets::glm_4_9b, "glm-4-9b-0414"},
    ModelPreset{"glm-4.5-air", &presets::glm_4_5_air},
    ModelPreset{"glm-4.5", &presets::glm_4_5},
    ModelPreset{"minimax-m2", &presets::minimax_m2},
    ModelPreset{"minitron-4b", &presets::minitron_4b, "minitron-4b-base"},
    ModelPreset{"kimi-k2", &presets::kimi_k2, "kimi-k2-instruct"},
    ModelPreset{"smollm3-3b", &presets::smollm3_3b, "smollm3"},
    ModelPreset{"stablelm-3b-4e1t", &presets::stablelm_3b, "stablelm-3b"},
    ModelPreset{"starcoder2-3b", &presets::starcoder2_3b},
    ModelPreset{"seed-oss-36b", &presets::seed_oss_36b},
    ModelPreset{"ernie-4.5-0.3b", &presets::ernie_4_5_0_3b},
    ModelPreset{"hunyuan-7b", &presets::hunyuan_7b},
    ModelPreset{"apertus-8b", &presets::apertus_8b, "apertus-8b-2509"},
    ModelPreset{"apertus-70b", &presets::apertus_70b, "apertus-70b-2509"},
    ModelPreset{"llama-4-maverick", &presets::llama_4_maverick, "llama-4-maverick-text"},
    ModelPreset{"gpt2", &presets::gpt2, "gpt2-small"},
    ModelPreset{"gpt2-medium", &presets::gpt2_medium},
    ModelPreset{"gpt2-large", &presets::gpt2_large},
    ModelPreset{"gpt2-xl", &presets::gpt2_xl},
    ModelPreset{"gpt-neox-20b", &presets::gpt_neox_20b},
    ModelPreset{"pythia-160m", &presets::pythia_160m},
    ModelPreset{"pythia-6.9b", &presets::pythia_6_9b},
    ModelPreset{"opt-125m", &presets::opt_125m},
    ModelPreset{"opt-350m", &presets::opt_350m},
    ModelPreset{"opt-1.3b", &presets::opt_1_3b},
    ModelPreset{"opt-6.7b", &presets::opt_6_7b},
    ModelPreset{"opt-13b", &presets::opt_13b},
    ModelPreset{"opt-30b", &presets::opt_30b},
    ModelPreset{"opt-66b", &presets::opt_66b},
    ModelPreset{"bloom-560m", &presets::bloom_560m},
    ModelPreset{"bloom-7b1", &presets::bloom_7b1},
    ModelPreset{"bloom-176b", &presets::bloom_176b, "bloom"},
    ModelPreset{"falcon-7b", &presets::falcon_7b},
    ModelPreset{"falcon-40b", &presets::falcon_40b},
    ModelPreset{"bert-base", &presets::bert_base, "bert-base-uncased"},
    ModelPreset{"bert-large", &presets::bert_large, "bert-large-uncased"},
    ModelPreset{"roberta-base", &presets::roberta_base},
    ModelPreset{"xlm-roberta-base", &presets::xlm_roberta_base},
    ModelPreset{"xlm-roberta-large", &presets::xlm_roberta_large},
    ModelPreset{"distilbert-base", &presets::distilbert_base, "distilbert-base-uncased"},
    ModelPreset{"mpnet-base", &presets::mpnet_base, "all-mpnet-base-v2"},
    ModelPreset{"modernbert-base", &presets::modernbert_base},
    ModelPreset{"modernbert-large", &presets::modernbert_large},
    ModelPreset{"t5-small", &presets::t5_small},
    ModelPreset{"t5-base", &presets::t5_base},
    ModelPreset{"t5-large", &presets::t5_large},
    ModelPreset{"flan-t5-xl", &presets::flan_t5_xl},
    ModelPreset{"mt5-small", &presets::mt5_small},
    ModelPreset{"mt5-base", &presets::mt5_base},
};

namespace detail {

[[nodiscard]] constexpr bool is_name_digit(char letter) {
    return letter >= '0' && letter <= '9';
}
[[nodiscard]] constexpr bool is_separator(char letter) {
    return letter == '-' || letter == '_' || letter == '.' || letter == ' ';
}

/// Reads a name as people spell it: letters in lower case, separators left out, except that digits stay apart
/// ("Llama 3-70B" and "llama-3-70b" are one name, "qwen2-57b" and "qwen2.5-7b" are not).
class SpelledName {
public:
    constexpr explicit SpelledName(std::string_view text) : text_(text) {}

    /// The next letter, '.' between two numbers, 0 at the end.
    constexpr char next() {
        auto const begin = at_;
        while (at_ < text_.size() && is_separator(text_[at_])) ++at_;
        if (at_ == text_.size()) return 0;
        bool const parts_numbers =
            at_ > begin && begin > 0 && is_name_digit(text_[begin - 1]) && is_name_digit(text_[at_]);
        if (parts_numbers && !is_dot_given_) return is_dot_given_ = true, at_ = begin, '.';
        is_dot_given_ = false;
        return to_lower(text_[at_++]);
    }

private:
    std::string_view text_;
    std::size_t at_ = 0;
    bool is_dot_given_ = false;
};

[[nodiscard]] constexpr bool is_same_spelling(std::string_view a, std::string_view b) {
    SpelledName left(a);
    SpelledName right(b);
    while (true) {
        auto const letter = left.next();
        if (letter != right.next()) return false;
        if (letter == 0) return true;
    }
}

}  // namespace detail

/// The preset with this name or alias, in any case and with any or no separators ("Llama3 70B"); null where there is
/// none.
[[nodiscard]] constexpr ModelPreset const* find_preset(std::string_view name) {
    if (name.empty()) return nullptr;
    for (auto const& preset : model_presets) {
        if (detail::is_same_spelling(preset.name, name)) return &preset;
        for (auto const alias : preset.aliases) {
            if (!alias.empty() && detail::is_same_spelling(alias, name)) return &preset;
        }
    }
    return nullptr;
}

/// The configuration of a preset.
///
/// Errors  unknown_name, with the closest preset
[[nodiscard]] constexpr Result<ModelConfig> preset_config(std::string_view name) {
    if (auto const* const preset = find_preset(name)) return *preset->config;
    ClosestName closest(name);
    for (auto const& preset : model_presets) closest.offer(preset.name);
    return Error{ErrorCode::unknown_name}
        .in(name)
        .because("is not a known model")
        .fix(did_you_mean(closest.best()).view());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
