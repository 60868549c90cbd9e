// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/files/json_steps.hpp>
#include <shardwise/tokenizer/split_step.hpp>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What `tokenizer.ggml.pre` of a GGUF file says: how byte-level text is cut, and what else depends on it.
struct GgufPreTokenizer {
    std::string_view name;
    bool ignores_merges = false;
    bool adds_begin = false;
    std::vector<std::string_view> patterns;
};

namespace detail {

// The patterns of the tokenizer.json files that the GGUF files were made from.
inline constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view qwen35_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view gpt4o_pattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view tekken_pattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view deepseek3_pattern =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view deepseek_letters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-Ჺ)"
    R"(Ჽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝ)"
    R"(ℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀)"
    R"(-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";

}  // namespace detail

/// How a GGUF file with this `tokenizer.ggml.pre` cuts text; an absent one is `default`.
///
/// Errors  unsupported with the name
/// Source  llama.cpp, llama-vocab.cpp, for the names and what they stand for
[[nodiscard]] inline Result<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name) {
    using namespace detail;
    if (name.empty()) name = "default";
    auto const is = [name](std::initializer_list<std::string_view> names) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (is({"default"})) {
        return GgufPreTokenizer{
            name, false, false, {R"([\p{P}$+<=>^~|]+)", gpt2_pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"}};
    }
    if (is({"gpt-2", "phi-2", "mpt", "olmo", "jais", "mellum", "modern-bert", "roberta-bpe", "exaone4", "jina-es",
            "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code", "gigachat", "a.x-4.0", "trillion",
            "granite-docling"})) {
        return GgufPreTokenizer{name, false, false, {gpt2_pattern}};
    }
    if (is({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"})) {
        return GgufPreTokenizer{name, false, false, {R"(\p{N})", gpt2_pattern}};
    }
    if (is({"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
            "jina-v5-nano"})) {
        return GgufPreTokenizer{name, true, true, {llama3_pattern}};
    }
    if (is({"dbrx", "smaug-bpe", "chatglm-bpe"})) return GgufPreTokenizer{name, false, false, {llama3_pattern}};
    if (is({"glm4", "glm5"})) return GgufPreTokenizer{name, true, false, {llama3_pattern}};
    if (is({"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan", "solar-open",
            "grok-2"})) {
        return GgufPreTokenizer{name, false, false, {qwen2_pattern}};
    }
    if (is({"qwen35"})) return GgufPreTokenizer{name, false, false, {qwen35_pattern}};
    if (is({"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"})) {
        return GgufPreTokenizer{name, false, false, {gpt4o_pattern}};
    }
    if (is({"tekken"})) return GgufPreTokenizer{name, true, true, {tekken_pattern}};
    if (is({"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"})) {
        return GgufPreTokenizer{name, false, false, {R"(\p{N}{1,3})", "[一-龥\u3040-ゟ゠-ヿ]+", deepseek3_pattern}};
    }
    if (is({"deepseek-llm"})) {
        return GgufPreTokenizer{name,
                                false,
                                false,
                                {R"([\r\n])", deepseek_letters, R"(\s?[!-/:-~！-／：-～‘-‟\u3000-。]+)", R"(\s+$)",
                                 R"([一-龥ࠀ-一가-\uD7FF]+)", R"(\p{N}+)"}};
    }
    if (is({"deepseek-coder"})) {
        return GgufPreTokenizer{
            name, false, false, {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([一-龥ࠀ-一가-\uD7FF]+)", R"(\p{N})"}};
    }
    if (is({"falcon"})) {
        return GgufPreTokenizer{name, false, false, {R"([\p{P}$+<=>^~|`]+)", gpt2_pattern, "[0-9][0-9][0-9]"}};
    }
    return Error{ErrorCode::unsupported}
        .at("tokenizer.ggml.pre")
        .because("the pre-tokenizer " + std::string(name) + " is not supported")
        .fix("give token ids, or use a checkpoint with a tokenizer.json");
}

/// The steps that cut text as `pre` says, up to the characters of a byte-level vocabulary.
[[nodiscard]] inline std::vector<SplitStep> splitter_of(GgufPreTokenizer const& pre) {
    std::vector<SplitStep> steps;
    for (auto const pattern : pre.patterns) {
        steps.push_back(SplitAtMatches{detail::known_pattern(pattern), SplitBehavior::isolated, false});
    }
    steps.push_back(EncodeBytes{});
    return steps;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
