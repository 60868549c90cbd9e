// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/fixed_text.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/model/config.hpp>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// True where the counted class is the family's for this task ("ForTokenClassification").
[[nodiscard]] constexpr bool is_for(ModelConfig const& config, std::string_view task) {
    auto const name = config.model_class.view();
    return name.size() > task.size() && name.substr(name.size() - task.size()) == task;
}

/// How many scores the counted class gives each text or token; 0 for a class that does not classify.
///
/// Source  transformers 4.57 configuration_utils.py: two labels where the config names none
[[nodiscard]] constexpr std::int64_t label_count(ModelConfig const& config) {
    if (is_for(config, "ForMultipleChoice")) return 1;
    bool const classifies = is_for(config, "ForSequenceClassification") || is_for(config, "ForTokenClassification") ||
                            is_for(config, "ForQuestionAnswering");
    if (!classifies) return 0;
    return config.labels > 0 ? config.labels : 2;
}

/// What a class is refused with that the family does not count, and that the library takes for `usual`.
[[nodiscard]] constexpr Error unknown_class(ModelConfig const& config, std::string_view usual) {
    return Error{ErrorCode::unsupported}
        .in(config.model_class.view())
        .at("architectures")
        .because("is not a class of this family that can be counted")
        .fix(did_you_mean(usual).view());
}

/// Takes the first of a family's classes for a config that names none, and refuses a class that the family does not
/// count.
///
/// Errors  unsupported, which names the class
[[nodiscard]] constexpr Result<> check_class(ModelConfig& config, std::initializer_list<std::string_view> classes) {
    if (config.model_class.empty()) config.model_class.assign(*classes.begin());
    for (auto const known : classes) {
        if (config.model_class.view() != known) continue;
        config.labels = label_count(config);
        return {};
    }
    return unknown_class(config, *classes.begin());
}

/// What follows the prefix in the names of a family's classes, the usual one first: a decoder's, with what classifies texts, with what
/// classifies tokens as well; an encoder's with every head.
inline constexpr std::array<std::string_view, 2> causal_classes{"ForCausalLM", "Model"};
inline constexpr std::array<std::string_view, 3> text_label_classes{"ForCausalLM", "Model",
                                                                    "ForSequenceClassification"};
inline constexpr std::array<std::string_view, 4> label_classes{"ForCausalLM", "Model", "ForSequenceClassification",
                                                               "ForTokenClassification"};
inline constexpr std::array<std::string_view, 6> masked_classes{
    "ForMaskedLM",      "Model", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
    "ForMultipleChoice"};

[[nodiscard]] constexpr FixedText<64> class_name(std::string_view prefix, std::string_view kind) {
    std::array<char, 128> text{};
    std::size_t size = 0;
    for (auto const part : {prefix, kind})
        for (char const letter : part.substr(0, text.size() / 2)) text[size++] = letter;
    return std::string_view{text.data(), size};
}

/// The same with classes of one prefix: "Llama" and "ForCausalLM" make "LlamaForCausalLM".
[[nodiscard]] constexpr Result<> check_class(ModelConfig& config, std::string_view prefix,
                                             Span<std::string_view const> kinds) {
    auto const usual = class_name(prefix, kinds.front());
    if (config.model_class.empty()) config.model_class = usual;
    auto const name = config.model_class.view();
    bool is_known = false;
    for (auto const kind : kinds)
        is_known = is_known || (name.substr(0, prefix.size()) == prefix && name.substr(prefix.size()) == kind);
    if (!is_known) return unknown_class(config, usual.view());
    config.labels = label_count(config);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
