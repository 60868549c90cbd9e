// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/sha256.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>
#include <shardwise/train/chat_tokens.hpp>
#include <shardwise/train/token_cache_writer.hpp>
#include <shardwise/train/token_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How text becomes tokens.
struct TokenizeOptions {
    /// Stands after every document: the tokenizer's end of sequence, as a rule. Without one a file of several documents is refused.
    std::optional<TokenId> end;
    /// Where caches lie; it exists.
    std::string folder;
    /// What tells the tokenizer, with its chat template, from all others: the SHA-256 of the files that it was read from (sha256_hex).
    std::string tokenizer_hash;
    /// For chats: the model's layout of conversations (Jinja), and what it prints as bos_token and its like.
    std::string chat_template{};
    SpecialTokenTexts special_tokens{};
};

namespace detail {

/// Tokens, and which of them a model is to predict; those that are written already are left out.
struct TokenizedText {
    std::vector<TokenId> ids;
    std::vector<std::uint8_t> counts;
    std::optional<TokenId> last;
    bool has_loss = false;
    std::int64_t documents = 0;

    void add(Span<TokenId const> more, bool is_counted) {
        ids.insert(ids.end(), more.begin(), more.end());
        if (!ids.empty()) last = ids.back();
        counts.resize(ids.size(), is_counted ? std::uint8_t{1} : std::uint8_t{0});
        has_loss = has_loss || (!is_counted && !more.empty());
    }
    void add(ChatTokens const& chat) {
        add(chat.ids, false);
        std::copy(chat.is_answer.begin(), chat.is_answer.end(),
                  counts.end() - static_cast<std::ptrdiff_t>(chat.is_answer.size()));
    }
    /// Ends a document, unless the tokenizer did already.
    void end_document(std::optional<TokenId> end, bool is_counted = true) {
        ++documents;
        if (end && last != end) add(Span<TokenId const>(&*end, 1), is_counted);
    }
    /// Gives the tokens so far to the cache.
    Result<> write_to(TokenCacheWriter& cache) {
        auto const written = cache.add(ids, counts, has_loss);
        ids.clear();
        counts.clear();
        return written;
    }
};

/// What a line of a JSON lines file is; `chats` is made for the first chat.
inline Result<> add_json_line(JsonValue const& line, Tokenizer const& tokenizer, TokenizeOptions const& options,
                              std::optional<ChatReader>& chats, TokenizedText& out) {
    auto const bad = [](std::string_view reason, std::string_view advice) {
        return Error{ErrorCode::malformed_file}.because(reason).fix(advice);
    };
    constexpr std::string_view forms =
        "a line is {\"text\": ...}, {\"prompt\": ..., \"completion\": ...} or {\"messages\": [...]}";
    if (!line.is_object()) return bad("is no object", forms);
    auto const text_of = [&line](std::string_view key) -> std::optional<std::string_view> {
        auto const member = line.find(key);
        return member ? member->string() : std::nullopt;
    };
    bool const has_text = line.find("text").has_value();
    bool const has_prompt = line.find("prompt") || line.find("completion");
    bool const is_chat = line.find("messages").has_value();
    if (is_chat && (has_text || has_prompt)) return bad("is a chat and a text or a prompt", forms);
    if (!is_chat && has_text == has_prompt)
        return bad(has_text ? "is a text and a prompt" : "is no text, no prompt and no chat", forms);
    auto const add = [&](std::string_view text, bool is_first, bool is_counted) -> Result<> {
        auto const ids = tokenizer.encode(text, {.adds_special = is_first, .finds_special = true});
        if (!ids) return ids.error();
        out.add(*ids, is_counted);
        return {};
    };
    if (is_chat) {
        if (!chats) {
            auto made = ChatReader::create(tokenizer, options.chat_template, options.special_tokens);
            if (!made) return made.error();
            chats.emplace(*std::move(made));
        }
        auto const tokens = chats->read(line);
        if (!tokens) return tokens.error();
        out.add(*tokens);
        // The template says how an answer ends: what parts documents is no part of one.
        out.end_document(options.end, false);
        return {};
    }
    if (has_text) {
        auto const text = text_of("text");
        if (!text) return bad("has a text that is no string", forms);
        if (auto const added = add(*text, true, true); !added) return added;
    } else {
        auto const prompt = text_of("prompt");
        auto const completion = text_of("completion");
        if (!prompt || !completion) return bad("has no prompt or no completion that is a string", forms);
        // Apart, so that what the completion's tokens are does not depend on the prompt's last letters.
        auto const ids = tokenizer.encode(*prompt);
        if (!ids) return ids.error();
        // What a tokenizer puts after a text would end the prompt before its completion.
        auto const& after = tokenizer.parts().after;
        auto const own = ids->size() - std::min(ids->size(), after.size());
        out.add(Span<TokenId const>(ids->data(), own), false);
        if (auto const added = add(*completion, false, true); !added) return added;
    }
    out.end_document(options.end);
    return {};
}

/// Tokenises JSON lines; empty lines are left out. `is_done(bytes)` writes what there is of that much of the text.
template <class Done>
Result<> add_json_lines(std::string_view text, std::string const& path, Tokenizer const& tokenizer,
                        TokenizeOptions const& options, TokenizedText& out, Done is_done) {
    std::int64_t number = 0;
    std::optional<ChatReader> chats;
    for (std::size_t at = 0; at < text.size();) {
        auto const end = std::min(text.find('\n', at), text.size());
        auto line = text.substr(at, end - at);
        ++number;
        auto const place = "line " + std::to_string(number) + ", byte " + std::to_string(at);
        at = end + 1;
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        auto const document = parse_json(line);
        auto const added =
            document ? add_json_line(document->root(), tokenizer, options, chats, out) : Result<>(document.error());
        if (added) {
            if (out.ids.size() < (std::size_t{1} << 16U)) continue;
            if (auto const written = is_done(std::min(at, text.size())); !written) return written;
            continue;
        }
        // Where within the line the reader of JSON stopped, its error says.
        auto const& inner = added.error();
        auto const within = inner.place().empty() ? place : place + ": " + std::string(inner.place());
        return Error{inner}.in(path).at(within);
    }
    return {};
}

}  // namespace detail

/// The tokens of a text file, or of a JSON lines file (`*.jsonl`) with a document in each line: {"text"}, or {"prompt", "completion"},
/// where only the completion's loss counts, or {"messages"} with or without {"tools"}, where only the assistant's answers do (ChatReader).
/// Tokenised once: the result is kept in `options.folder` under the hash of the contents,
/// the tokenizer and the options, and mapped from there. Several processes may do so at once; a cache is there whole or not at
/// all, and one that was changed is made again.
///
/// Memory  while it tokenises, some 20 MiB: texts are read and written in parts (Tokenizer::encode_in_parts says where a text cannot be
///         cut, and then it is some forty times the text); a line of JSON whole
/// Errors  file_not_found, file_unreadable, file_unwritable; malformed_file and unsupported with the line and its byte;
///         invalid_argument for several documents without an end token; capacity_exceeded above a GiB
[[nodiscard]] inline Result<TokenFile> tokenize_file(std::string const& path, Tokenizer const& tokenizer,
                                                     TokenizeOptions const& options) {
    constexpr std::uint64_t max_bytes = std::uint64_t{1} << 30U;
    auto const file = RegularFile::open(path);
    if (!file) return file.error();
    if (file->size() > max_bytes) {
        return Error{ErrorCode::capacity_exceeded}
            .in(path)
            .because("is larger than a file of text may be, in bytes")
            .got(static_cast<std::int64_t>(file->size()))
            .at_most(static_cast<std::int64_t>(max_bytes))
            .fix("cut it, or tokenise it to a *.u16 or *.u32 file");
    }
    auto const mapped = MappedFile::map(*file, 0, UINT64_MAX);
    if (!mapped) return mapped.error();
    auto const text = mapped->text();
    bool const is_lines = path.ends_with(".jsonl");
    auto const end = options.end ? std::to_string(*options.end) : "none";
    Sha256 key;
    key.add("shardwise tokens 1\n").add(is_lines ? "lines\n" : "text\n").add(end + "\n");
    key.add(options.tokenizer_hash + "\n").add(detail::hash_pages(*mapped).hex());
    auto const cache = options.folder + "/" + key.hex() + ".tokens";
    if (auto found = TokenFile::open_cache(cache)) return found;

    auto const limit = std::max(static_cast<std::int64_t>(tokenizer.size()), std::int64_t{options.end.value_or(0)} + 1);
    detail::TokenCacheWriter writer(cache, limit);
    detail::TokenizedText tokens;
    ReadPages pages(&*mapped);
    auto const write = [&](std::size_t bytes) -> Result<> {
        pages.release_before(bytes);
        return tokens.write_to(writer);
    };
    if (is_lines) {
        auto const added = detail::add_json_lines(text, path, tokenizer, options, tokens, write);
        if (!added) return added.error();
    } else {
        auto const added = tokenizer.encode_in_parts(text, [&](Span<TokenId const> ids, std::size_t bytes) {
            tokens.add(ids, true);
            return write(bytes);
        });
        if (!added) {
            bool const is_text = added.error().code() != ErrorCode::file_unwritable;
            return is_text ? Error{added.error()}.in(path) : added.error();
        }
        tokens.end_document(options.end);
    }
    // Before anything is kept of it: what was read was the file's.
    if (auto const whole = mapped->check(); !whole) return whole.error();
    if (!options.end && tokens.documents > 1) {
        return Error{ErrorCode::invalid_argument}
            .in(path)
            .because("has several documents, and there is no token to stand between them")
            .got(tokens.documents)
            .fix("give the id of an end token");
    }
    if (auto const written = write(text.size()); !written) return written.error();
    if (auto const finished = writer.finish(); !finished) return finished.error();
    return TokenFile::open_cache(cache);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
