// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/value.hpp>
#include <shardwise/tokenizer/chat_template.hpp>
#include <shardwise/tokenizer/files/special_token_texts.hpp>
#include <shardwise/tokenizer/jinja/json_value.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The tokens of a conversation, and which of them the assistant writes.
struct ChatTokens {
    std::vector<TokenId> ids;
    std::vector<std::uint8_t> is_answer;
};

namespace detail {

using TextSpan = jinja::TextSpan;

/// Where each token lies in the text that it was made of, in bytes. Spaces that a tokenizer puts before words, or takes away, belong to
/// the token beside them.
///
/// Errors  unsupported where the tokens are not the text's: the tokenizer has changed more of it
[[nodiscard]] inline Result<std::vector<TextSpan>> token_spans(Tokenizer const& tokenizer, std::string_view text,
                                                               std::vector<TokenId> const& ids) {
    std::vector<TextSpan> out;
    std::size_t at = 0;
    for (auto const id : ids) {
        auto const decoded = tokenizer.decode_bytes({&id, 1}, false, true);
        if (!decoded) return decoded.error();
        std::string_view own = *decoded;
        auto rest = text.substr(at);
        auto begin = at;
        if (!rest.starts_with(own)) {
            bool const has_space = own.starts_with(' ') && rest.starts_with(own.substr(1));
            bool const lacks_space = rest.starts_with(' ') && rest.substr(1).starts_with(own);
            if (!has_space && !lacks_space)
                return Error{ErrorCode::unsupported}.because(
                    "is a chat, and the tokenizer changes its text, so that answers' tokens cannot be told");
            if (has_space) own.remove_prefix(1);
            at += lacks_space ? 1 : 0;
        }
        at += own.size();
        out.push_back({begin, at});
    }
    if (at == text.size()) return out;
    return Error{ErrorCode::unsupported}.because(
        "is a chat, and the tokenizer drops the end of its text, so that answers' tokens cannot be told");
}

}  // namespace detail

/// Reads conversations, as their model's chat template writes them.
///
/// An answer is what the template marks ({% generation %}), as in transformers' assistant masks: from the token with its first
/// character to the one with its last. Where a template marks nothing, an answer is what it writes for a message of the assistant behind
/// the prompt for one: the text up to this message less the text before it with add_generation_prompt.
class ChatReader {
public:
    /// `tokenizer` outlives this.
    ///
    /// Errors  missing_field without a template; as ChatTemplate::parse
    [[nodiscard]] static Result<ChatReader> create(Tokenizer const& tokenizer, std::string_view chat_template,
                                                   SpecialTokenTexts special_tokens) {
        if (chat_template.empty())
            return Error{ErrorCode::missing_field}
                .because("is a chat, and the model has no chat template")
                .fix("give a tokenizer with one, or write prompt and completion");
        auto layout = ChatTemplate::parse(chat_template);
        if (!layout) return in_template(layout.error());
        return ChatReader(tokenizer, *std::move(layout), std::move(special_tokens));
    }

    /// Of an object with `messages` and, where the template takes them, `tools` and `documents`.
    ///
    /// Errors  malformed_file for messages that are none; invalid_argument for a conversation that the template refuses, and for one without
    ///         an answer; unsupported where answers cannot be told from the rest
    [[nodiscard]] Result<ChatTokens> read(JsonValue const& line) const {
        auto const messages = line.find("messages");
        std::vector<JsonValue> all;
        if (messages && messages->is_array()) {
            for (auto const message : *messages) all.push_back(message);
        }
        bool is_good = !all.empty();
        for (auto const& message : all) is_good = is_good && !role_of(message).empty();
        if (!is_good)
            return Error{ErrorCode::malformed_file}
                .because("has messages that are no list of objects with a role")
                .fix("a chat is {\"messages\": [{\"role\": ..., \"content\": ...}, ...]}");
        auto whole = render(line, all, all.size(), false);
        if (!whole) return whole.error();
        if (!layout_.marks_answers()) {
            auto spans = find_answers(line, all, whole->text);
            if (!spans) return spans.error();
            whole->spans = *std::move(spans);
        }
        ChatTokens out;
        auto ids = tokenizer_->encode(whole->text, {.adds_special = false});
        if (!ids) return ids.error();
        out.ids = *std::move(ids);
        out.is_answer.resize(out.ids.size());
        auto const places = detail::token_spans(*tokenizer_, whole->text, out.ids);
        if (!places) return places.error();
        bool is_any = false;
        for (auto const& span : whole->spans) {
            if (span.begin == span.end) continue;
            auto const first = token_at(*places, span.begin);
            auto const last = token_at(*places, begin_of_last(whole->text, span));
            for (auto i = first; i <= last; ++i) out.is_answer[i] = 1;
            is_any = true;
        }
        if (is_any) return out;
        return Error{ErrorCode::invalid_argument}
            .because("is a chat without an answer of the assistant, whose loss would count")
            .fix("leave it out");
    }

private:
    ChatReader(Tokenizer const& tokenizer, ChatTemplate layout, SpecialTokenTexts special_tokens)
        : tokenizer_(&tokenizer), layout_(std::move(layout)), special_tokens_(std::move(special_tokens)) {}

    [[nodiscard]] static Error in_template(Error const& error) {
        return Error{error.code()}.because("is a chat; chat_template: " + std::string(error.place()) + ": " +
                                           std::string(error.reason()));
    }
    [[nodiscard]] static std::string_view role_of(JsonValue const& message) {
        auto const role = message.find("role");
        return role ? role->string().value_or(std::string_view{}) : std::string_view{};
    }
    /// The token with a byte of the text.
    [[nodiscard]] static std::size_t token_at(std::vector<detail::TextSpan> const& places, std::size_t byte) {
        std::size_t i = 0;
        while (i + 1 < places.size() && places[i].end <= byte) ++i;
        return i;
    }
    /// Where the last character of a part begins.
    [[nodiscard]] static std::size_t begin_of_last(std::string_view text, detail::TextSpan const& span) {
        auto at = span.end - 1;
        while (at > span.begin && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
        return at;
    }

    /// The first `count` messages.
    [[nodiscard]] Result<ChatTemplate::Marked> render(JsonValue const& line, std::vector<JsonValue> const& all,
                                                      std::size_t count, bool adds_prompt) const {
        using detail::jinja::JinjaValue;
        ChatTemplateLimits limits;
        detail::jinja::JinjaRunState building(limits);
        detail::jinja::JinjaGlobals globals;
        std::vector<JinjaValue> messages;
        for (std::size_t i = 0; i < count; ++i) messages.push_back(detail::jinja::json_value(building, all[i]));
        for (auto const& [name, text] : special_tokens_) globals.emplace_back(name, JinjaValue(to_valid_utf8(text)));
        globals.emplace_back("messages", building.make_list(std::move(messages)));
        for (auto const* const name : {"tools", "documents"}) {
            auto const given = line.find(name);
            globals.emplace_back(name, given ? detail::jinja::json_value(building, *given) : JinjaValue::none());
        }
        globals.emplace_back("add_generation_prompt", JinjaValue::boolean(adds_prompt));
        if (building.is_failed()) return Error{ErrorCode::unsupported}.because("is a chat that " + building.reason());
        auto made = layout_.render_marked(globals, limits);
        if (!made) return in_template(made.error());
        return made;
    }
    /// What the template writes for messages of the assistant, where it does not say so itself.
    [[nodiscard]] Result<std::vector<detail::TextSpan>> find_answers(JsonValue const& line,
                                                                     std::vector<JsonValue> const& all,
                                                                     std::string_view text) const {
        std::vector<detail::TextSpan> out;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (role_of(all[i]) != "assistant") continue;
            auto const before = render(line, all, i, true);
            if (!before) return before.error();
            auto const after = i + 1 < all.size() ? render(line, all, i + 1, false) : Result(ChatTemplate::Marked{});
            if (!after) return after.error();
            auto const through = i + 1 < all.size() ? std::string_view(after->text) : text;
            bool const is_prefix = text.starts_with(through) && through.starts_with(before->text);
            if (!is_prefix)
                return Error{ErrorCode::unsupported}
                    .because("is a chat whose template does not mark answers ({% generation %}), and writes message " +
                             std::to_string(i + 1) + " otherwise where others follow or an answer is asked for")
                    .fix("give a template that marks them, or write prompt and completion");
            out.push_back({before->text.size(), through.size()});
        }
        return out;
    }

    Tokenizer const* tokenizer_;
    ChatTemplate layout_;
    SpecialTokenTexts special_tokens_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
