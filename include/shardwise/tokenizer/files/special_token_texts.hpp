// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/value.hpp>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The texts of special tokens under the names that chat templates know: bos_token, eos_token, ...
using SpecialTokenTexts = std::vector<std::pair<std::string, std::string>>;

namespace detail {

/// The text of a special token in tokenizer_config.json: a string, or an object with its content.
[[nodiscard]] inline std::string_view token_text(JsonValue const& config, std::string_view key) {
    auto const member = config.find(key);
    if (!member) return {};
    if (member->is_string()) return member->string().value_or("");
    auto const content = member->find("content");
    return content ? content->string().value_or("") : std::string_view{};
}

/// What a class of tokenizers has where its files say nothing of a token.
///
/// Source  transformers 4.57.6, the parameters of the classes' constructors
struct TokenDefaults {
    std::string_view family;  // the class's name without Tokenizer, TokenizerFast
    std::string_view bos;
    std::string_view eos;
    std::string_view unk;
    std::string_view pad;
};
inline constexpr std::array token_defaults{
    TokenDefaults{"Llama", "<s>", "</s>", "<unk>", ""},
    TokenDefaults{"CodeLlama", "<s>", "</s>", "<unk>", ""},
    TokenDefaults{"Gemma", "<bos>", "<eos>", "<unk>", "<pad>"},
    TokenDefaults{"Qwen2", "", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
    TokenDefaults{"GPT2", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", ""},
    TokenDefaults{"GPTNeoX", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", ""},
    TokenDefaults{"Cohere", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", ""},
    TokenDefaults{"Bloom", "<s>", "</s>", "<unk>", "<pad>"}};

/// The texts of a folder's special tokens: those of special_tokens_map.json where it counts, those of tokenizer_config.json,
/// else those of the class. null is a token that there is not.
[[nodiscard]] inline SpecialTokenTexts special_token_texts(JsonValue const& config, JsonValue const* map) {
    constexpr std::array<std::string_view, 7> names{"bos_token", "eos_token", "unk_token", "sep_token",
                                                    "pad_token", "cls_token", "mask_token"};
    auto const class_member = config.find("tokenizer_class");
    std::string_view family = class_member ? class_member->string().value_or("") : std::string_view{};
    if (auto const end = family.rfind("Tokenizer"); end != std::string_view::npos) family = family.substr(0, end);
    SpecialTokenTexts texts;
    for (auto const name : names) {
        std::string_view text;
        if (map && map->find(name)) {
            text = token_text(*map, name);
        } else if (config.find(name)) {
            text = token_text(config, name);
        } else {
            for (auto const& known : token_defaults) {
                if (known.family != family) continue;
                text = name == "bos_token"   ? known.bos
                       : name == "eos_token" ? known.eos
                       : name == "unk_token" ? known.unk
                       : name == "pad_token" ? known.pad
                                             : std::string_view{};
            }
        }
        if (!text.empty()) texts.emplace_back(name, text);
    }
    return texts;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
