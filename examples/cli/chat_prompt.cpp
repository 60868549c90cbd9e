// SPDX-License-Identifier: Apache-2.0
#include "chat_prompt.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] std::optional<std::tm> local_time() {
    auto const now = std::time(nullptr);
    std::tm parts{};
    if (::localtime_r(&now, &parts) == nullptr) return std::nullopt;
    return parts;
}

void show_template(std::string_view text) {
    std::fputs("shardwise: the model's chat_template:\n", stderr);
    while (!text.empty()) {
        auto const line = text.substr(0, text.find('\n'));
        std::fprintf(stderr, "%s\n", escaped(line).c_str());
        text.remove_prefix(std::min(line.size() + 1, text.size()));
    }
}

}  // namespace

Result<ChatPrompt> ChatPrompt::make(LoadedTokenizer const& loaded) {
    ChatPrompt chat;
    chat.text_ = loaded.chat_template;
    chat.special_tokens_ = loaded.special_tokens;
    if (chat.text_.empty()) return Error{recognize_chat_format({}).error()}.in("--chat");
    auto layout = ChatTemplate::parse(chat.text_);
    if (layout) {
        chat.layout_ = *std::move(layout);
    } else if (auto const done = chat.fall_back(layout.error()); !done) {
        return done.error();
    }
    return chat;
}

Result<> ChatPrompt::fall_back(Error const& why) {
    auto format = recognize_chat_format(text_);
    if (!format) {
        show_template(text_);
        return Error{why}.fix("write the prompt as the model expects it, without --chat");
    }
    std::fprintf(stderr, "shardwise: %s; the built-in layout %s stands in for the model's own\n", why.message().c_str(),
                 std::string(name_of(format->layout)).c_str());
    layout_.reset();
    format_ = *std::move(format);
    return {};
}

Result<std::vector<TokenId>> ChatPrompt::encode(Tokenizer const& tokenizer, std::span<ChatMessage const> messages) {
    if (layout_) {
        auto const text =
            layout_->render({.messages = messages, .special_tokens = special_tokens_, .now = local_time()});
        // As in transformers the template has written every special token: the tokenizer adds none.
        if (text) return tokenizer.encode(*text, {.adds_special = false});
        if (text.error().code() != ErrorCode::unsupported) return text.error();
        if (auto const done = fall_back(text.error()); !done) return done.error();
    }
    auto const text = lay_out_chat(*format_, messages);
    if (!text) return text.error();
    return tokenizer.encode(*text);
}

}  // namespace shardwise::cli
