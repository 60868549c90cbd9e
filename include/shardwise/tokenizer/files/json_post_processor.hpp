// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/files/json_steps.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// An id that is in range; noted where it is not.
[[nodiscard]] inline TokenId checked_id(JsonPart const& part, std::string_view key, std::int64_t id) {
    if (id >= 0 && id < Vocabulary::max_tokens) return static_cast<TokenId>(id);
    part.refuse(ErrorCode::invalid_field, key, "is no token id");
    return 0;
}

/// ["[CLS]", 101]
[[nodiscard]] inline TokenId read_named_id(JsonPart const& step, std::string_view key) {
    auto const pair = step.find(key);
    std::int64_t id = -1;
    if (pair && pair->value().is_array()) {
        for (auto const element : pair->value()) id = element.integer().value_or(-1);
    }
    return checked_id(step, key, id);
}

/// Known templates have a handful; each may name a list of ids, which would multiply.
inline constexpr std::size_t max_template_tokens = 4096;

inline void refuse_template(JsonPart const& single) {
    single.refuse(ErrorCode::capacity_exceeded, {},
                  "puts more than " + std::to_string(max_template_tokens) + " tokens around a text");
}

/// The template of a single text: token ids before and after it.
inline void read_template(JsonPart const& step, TokenizerParts& out) {
    auto const single = step.find("single");
    auto const names = step.find("special_tokens");
    if (!single || !single->value().is_array())
        return step.refuse(ErrorCode::invalid_field, "single", "must be a list");
    std::vector<TokenId> before;
    std::vector<TokenId> after;
    std::size_t texts = 0;
    std::size_t index = 0;
    for (auto const value : single->value()) {
        if (index == max_template_tokens) return refuse_template(*single);
        auto const item = single->element(value, index++);
        if (item.find("Sequence")) {
            ++texts;
            continue;
        }
        auto const token = item.find("SpecialToken");
        if (!token) return item.refuse(ErrorCode::invalid_field, {}, "is neither Sequence nor SpecialToken");
        auto const named = names ? names->find(token->text("id")) : std::nullopt;
        auto const ids = named ? named->find("ids") : std::nullopt;
        if (!ids || !ids->value().is_array()) return token->refuse(ErrorCode::missing_field, "id", "has no ids");
        for (auto const id : ids->value()) {
            if (before.size() + after.size() == max_template_tokens) return refuse_template(*single);
            (texts == 0 ? before : after).push_back(checked_id(*ids, {}, id.integer().value_or(-1)));
        }
    }
    if (out.before.size() + out.after.size() > max_template_tokens) return refuse_template(*single);
    if (texts != 1) return single->refuse(ErrorCode::unsupported, {}, "takes the text not exactly once");
    out.before.insert(out.before.begin(), before.begin(), before.end());
    out.after.insert(out.after.end(), after.begin(), after.end());
}

inline void read_post_processor(JsonPart const& step, TokenizerParts& out, int depth = 0) {
    auto const type = step.type();
    if (out.before.size() > max_template_tokens) return refuse_template(step);
    if (type == "Sequence") {
        read_sequence(step, "processors", depth,
                      [&](JsonPart const& inner, int at) { read_post_processor(inner, out, at); });
    } else if (type == "TemplateProcessing") {
        read_template(step, out);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
        out.before.insert(out.before.begin(), read_named_id(step, "cls"));
        out.after.push_back(read_named_id(step, "sep"));
    } else if (type != "ByteLevel") {  // ByteLevel changes offsets only
        step.refuse_kind(type);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
