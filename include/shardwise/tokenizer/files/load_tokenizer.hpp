// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>
#include <shardwise/tokenizer/files/special_token_texts.hpp>
#include <shardwise/tokenizer/files/tokenizer_gguf.hpp>
#include <shardwise/tokenizer/files/tokenizer_json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A tokenizer and the layout of conversations that came with it, as it is written (Jinja), empty where there is none.
struct LoadedTokenizer {
    Tokenizer tokenizer;
    std::string chat_template;
    /// What a chat template prints as bos_token and its like.
    SpecialTokenTexts special_tokens;
};

namespace detail {

/// The chat template of a tokenizer_config.json: a text, or a list of named ones, of which "default" counts.
inline std::string chat_template_of(JsonValue const& config) {
    auto const member = config.find("chat_template");
    if (!member) return {};
    if (member->is_string()) return std::string(*member->string());
    if (!member->is_array()) return {};
    for (auto const entry : *member) {
        auto const name = entry.find("name");
        auto const text = entry.find("template");
        if (name && text && name->string() == "default") return std::string(text->string().value_or(""));
    }
    return {};
}

/// What tokenizer_config.json adds: which tokens begin and end a sequence, and the chat template.
inline Result<LoadedTokenizer> with_config(Tokenizer tokenizer, JsonValue const& config, JsonValue const* map) {
    auto parts = tokenizer.parts();
    auto const find = [&](std::string_view key) {
        auto const text = token_text(config, key);
        return text.empty() ? std::nullopt : tokenizer.id_of(text);
    };
    parts.begin_of_sequence = find("bos_token");
    parts.end_of_sequence = find("eos_token");
    auto made = Tokenizer::make(std::move(parts));
    if (!made) return made.error();
    return LoadedTokenizer{std::move(*made), chat_template_of(config), special_token_texts(config, map)};
}

/// The texts of a GGUF file's special tokens.
inline SpecialTokenTexts special_token_texts(Tokenizer const& tokenizer, GgufMetadata const& metadata) {
    SpecialTokenTexts texts;
    auto const add = [&](std::string_view name, std::optional<std::int64_t> id) {
        if (!id || *id < 0 || static_cast<std::uint64_t>(*id) >= tokenizer.size()) return;
        if (auto const text = tokenizer.token(static_cast<TokenId>(*id))) texts.emplace_back(name, *text);
    };
    add("bos_token", tokenizer.begin_of_sequence());
    add("eos_token", tokenizer.end_of_sequence());
    add("unk_token", metadata.integer("tokenizer.ggml.unknown_token_id"));
    add("pad_token", metadata.integer("tokenizer.ggml.padding_token_id"));
    return texts;
}

inline constexpr std::size_t max_tokenizer_config = std::size_t{16} << 20U;

/// A JSON file that need not be there.
template <class Open>
Result<std::optional<JsonDocument>> optional_json(Open open, std::string_view name) {
    auto const file = open(name);
    if (!file) return std::optional<JsonDocument>{};
    auto const text = read_text_file(*file, max_tokenizer_config);
    if (!text) return text.error();
    auto document = parse_json(*text);
    if (!document) return Error{document.error()}.in(file->path());
    return std::optional(*std::move(document));
}

/// `open(name)` opens a file beside the others.
template <class Open>
Result<LoadedTokenizer> load_tokenizer_files(Open open) {
    auto const file = open("tokenizer.json");
    if (!file) {
        if (file.error().code() != ErrorCode::file_not_found) return file.error();
        return Error{file.error()}.fix("only tokenizer.json and GGUF vocabularies are read; give token ids");
    }
    auto const text = read_text_file(*file, tokenizer_json_limits.text);
    if (!text) return text.error();
    auto tokenizer = parse_tokenizer_json(*text, file->path());
    if (!tokenizer) return tokenizer.error();
    LoadedTokenizer loaded{std::move(*tokenizer), {}, {}};
    auto const document = optional_json(open, "tokenizer_config.json");
    if (!document) return document.error();
    if (*document) {
        auto const root = (*document)->root();
        // Only beside a config of the older form does transformers read it.
        auto const map = root.find("added_tokens_decoder") ? Result(std::optional<JsonDocument>{})
                                                           : optional_json(open, "special_tokens_map.json");
        if (!map) return map.error();
        auto const map_root = *map ? std::optional((*map)->root()) : std::nullopt;
        auto configured = with_config(std::move(loaded.tokenizer), root, map_root ? &*map_root : nullptr);
        if (!configured) return configured.error();
        loaded = std::move(*configured);
    }
    // The file of its own counts before the member of tokenizer_config.json, as in transformers.
    if (auto const layout = open("chat_template.jinja")) {
        auto layout_text = read_text_file(*layout, max_tokenizer_config);
        if (!layout_text) return layout_text.error();
        loaded.chat_template = std::move(*layout_text);
    }
    return loaded;
}

}  // namespace detail

/// The tokenizer of a model: tokenizer.json with tokenizer_config.json in its folder, or what its GGUF file holds. A path
/// to a tokenizer.json counts as that file alone.
///
/// Errors  file_not_found, file_unreadable; as parse_tokenizer_json and read_gguf_tokenizer
[[nodiscard]] inline Result<LoadedTokenizer> load_tokenizer(OpenCheckpoint& files) {
    auto const& source = files.source();
    if (source.kind == SourceKind::preset) {
        return Error{ErrorCode::unsupported}
            .in(source.name)
            .because("is a preset, which has no tokenizer")
            .fix("give a folder with a tokenizer.json, or a .gguf file");
    }
    if (source.kind == SourceKind::gguf && !source.weights.empty()) {
        auto const named = files.named_gguf();
        if (!named) return named.error();
        auto const& metadata = (*named)->header.metadata;
        auto tokenizer = read_gguf_tokenizer(metadata, metadata.source().file()->path());
        if (!tokenizer) return tokenizer.error();
        auto texts = detail::special_token_texts(*tokenizer, metadata);
        return LoadedTokenizer{std::move(*tokenizer), metadata.text("tokenizer.chat_template"), std::move(texts)};
    }
    if (!source.folder.empty())
        return detail::load_tokenizer_files([&](std::string_view name) { return source.open(name); });
    auto const& path = source.config.empty() ? source.weights.front() : source.config;
    auto const slash = path.rfind('/');
    auto const folder = slash == std::string::npos ? std::string{} : path.substr(0, slash + 1);
    if (path.substr(slash + 1) == "tokenizer.json") {
        return detail::load_tokenizer_files([&](std::string_view name) {
            return name == "tokenizer.json" ? RegularFile::open(path) : RegularFile::open(folder + std::string(name));
        });
    }
    return detail::load_tokenizer_files(
        [&](std::string_view name) { return RegularFile::open(folder + std::string(name)); });
}

/// The same, for files that are opened for it alone.
[[nodiscard]] inline Result<LoadedTokenizer> load_tokenizer(ModelSource const& source) {
    OpenCheckpoint files(source);
    return load_tokenizer(files);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
