// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/tokenizer/files/json_model.hpp>
#include <shardwise/tokenizer/files/tokenizer_number.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How large a tokenizer.json may be: the largest known have 500 000 merges.
inline constexpr JsonLimits tokenizer_json_limits{.depth = 64, .values = 8'000'000, .text = std::size_t{256} << 20U};

namespace detail {

/// Makes a document whose reals are those that tokenizers reads.
class TokenizerJsonBuilder : public JsonDocumentBuilder {
public:
    using JsonDocumentBuilder::JsonDocumentBuilder;
    using JsonDocumentBuilder::real;
    bool real(double, std::string_view digits) {
        auto const number = tokenizer_number(digits);
        if (number - number == 0.0) return real(number);
        return refuse(Error{ErrorCode::malformed_file}.at(digits).because("is a number too large for a double"));
    }
};

[[nodiscard]] inline Result<JsonDocument> parse_tokenizer_document(std::string_view text) {
    TokenizerJsonBuilder builder(tokenizer_json_limits);
    if (auto const read = read_json(text, builder, tokenizer_json_limits.depth); !read) return read.error();
    return std::move(builder).take();
}

inline void read_added_tokens(JsonPart const& list, TokenizerParts& out) {
    if (!list.value().is_array()) return list.refuse(ErrorCode::invalid_field, {}, "must be a list");
    std::size_t index = 0;
    for (auto const value : list.value()) {
        auto const item = list.element(value, index++);
        AddedToken token;
        token.text = item.text("content");
        if (token.text.size() > max_added_token_size) {
            item.refuse(ErrorCode::capacity_exceeded, "content",
                        "has more than the " + std::to_string(max_added_token_size) + " bytes that an added token may");
            return;
        }
        token.id = checked_id(item, "id", item.integer("id"));
        token.is_special = item.flag("special", false);
        token.is_normalized = item.flag("normalized", !token.is_special);
        token.is_single_word = item.flag("single_word", false);
        token.strips_left = item.flag("lstrip", false);
        token.strips_right = item.flag("rstrip", false);
        out.added.push_back(std::move(token));
    }
}

}  // namespace detail

/// The tokenizer of a tokenizer.json. Its padding and truncation are not applied.
///
/// Errors  malformed_file, missing_field, invalid_field with the place; unsupported with the kind that is; capacity_exceeded
[[nodiscard]] inline Result<Tokenizer> parse_tokenizer_json(std::string_view text, std::string_view path) {
    auto const document = detail::parse_tokenizer_document(text);
    if (!document) return Error{document.error()}.in(path);
    detail::FirstError errors;
    detail::JsonPart const root(document->root(), "tokenizer", errors);
    TokenizerParts parts;
    if (auto const model = root.find("model"); model && model->value().is_object()) {
        parts.model = detail::read_model(*model);
    } else {
        root.refuse(ErrorCode::missing_field, "model", "must be an object");
    }
    if (auto const list = root.find("added_tokens")) detail::read_added_tokens(*list, parts);
    if (auto const step = root.find("normalizer")) detail::read_normalizer(*step, parts.normalizer);
    if (auto const step = root.find("pre_tokenizer")) detail::read_splitter(*step, parts.splitter);
    if (auto const step = root.find("post_processor")) detail::read_post_processor(*step, parts);
    if (auto const step = root.find("decoder")) {
        detail::read_decoder(*step, parts.decoder);
    } else {
        parts.joins_with_spaces = true;
    }
    if (errors.has_error()) return Error{errors.error()}.in(path);
    auto made = Tokenizer::make(std::move(parts));
    if (!made) return Error{made.error()}.in(path);
    return made;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
