// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/files/gguf.hpp>
#include <shardwise/model/files/model_source.hpp>
#include <shardwise/tokenizer/files/tokenizer_gguf.hpp>
#include <shardwise/tokenizer/files/tokenizer_json.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A tokenizer and the layout of conversations that came with it, as it is written (Jinja), empty where there is none.
struct LoadedTokenizer {
    Tokenizer tokenizer;
    std::string chat_template;
};

namespace detail {

/// The text of a special token in tokenizer_config.json: a string, or an object with its content.
[[nodiscard]] inline std::string_view token_text(JsonValue const& config, std::string_view key) {
    auto const member = config.find(key);
    if (!member) return {};
    if (member->is_string()) return member->string().value_or("");
    auto const content = member->find("content");
    return content ? content->string().value_or("") : std::string_view{};
}

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
inline Result<LoadedTokenizer> with_config(Tokenizer tokenizer, JsonValue const& config) {
    auto parts = tokenizer.parts();
    auto const find = [&](std::string_view key) {
        auto const text = token_text(config, key);
        return text.empty() ? std::nullopt : tokenizer.id_of(text);
    };
    parts.begin_of_sequence = find("bos_token");
    parts.end_of_sequence = find("eos_token");
    auto made = Tokenizer::make(std::move(parts));
    if (!made) return made.error();
    return LoadedTokenizer{std::move(*made), chat_template_of(config)};
}

inline constexpr std::size_t max_tokenizer_config = std::size_t{16} << 20U;

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
    LoadedTokenizer loaded{std::move(*tokenizer), {}};
    if (auto const config = open("tokenizer_config.json")) {
        auto const config_text = read_text_file(*config, max_tokenizer_config);
        if (!config_text) return config_text.error();
        auto const document = parse_json(*config_text);
        if (!document) return Error{document.error()}.in(config->path());
        auto configured = with_config(std::move(loaded.tokenizer), document->root());
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
[[nodiscard]] inline Result<LoadedTokenizer> load_tokenizer(ModelSource const& source) {
    if (source.kind == SourceKind::preset) {
        return Error{ErrorCode::unsupported}
            .in(source.name)
            .because("is a preset, which has no tokenizer")
            .fix("give a folder with a tokenizer.json, or a .gguf file");
    }
    if (source.kind == SourceKind::gguf && !source.weights.empty()) {
        auto file = source.open(source.weights.front());
        if (!file) return file.error();
        auto const path = file->path();
        auto const header = read_gguf(std::move(*file));
        if (!header) return header.error();
        auto tokenizer = read_gguf_tokenizer(header->metadata, path);
        if (!tokenizer) return tokenizer.error();
        return LoadedTokenizer{std::move(*tokenizer), header->metadata.text("tokenizer.chat_template")};
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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
