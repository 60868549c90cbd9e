// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/gguf.hpp>
#include <shardwise/model/files/model_source.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Adds the id or the ids of a key of a JSON file, where the file and the key are there.
[[nodiscard]] inline Result<> add_token_ids(ModelSource const& source, std::string_view file, std::string_view key,
                                            std::vector<std::int32_t>& ids) {
    auto const opened = source.open(file);
    if (!opened) return opened.error().code() == ErrorCode::file_not_found ? Result<>{} : Result<>(opened.error());
    constexpr std::size_t most = std::size_t{16} << 20U;
    auto const text = read_text_file(*opened, most);
    if (!text) return text.error();
    auto const document = parse_json(*text, {.may_repeat_keys = true});
    if (!document) {
        auto error = document.error();
        return error.in(opened->path());
    }
    if (!document->root().is_object()) return {};
    auto const value = document->root().find(key);
    if (auto const clear = document->check_repeats(); !clear) return Error{clear.error()}.in(opened->path());
    if (!value || value->is_null()) return {};
    auto const add = [&](JsonValue const& one) -> Result<> {
        auto const id = one.integer();
        if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max()) {
            return Error{ErrorCode::invalid_field}.in(opened->path()).at(key).because("is no token's id");
        }
        ids.push_back(static_cast<std::int32_t>(*id));
        return {};
    };
    if (!value->is_array()) return add(*value);
    for (auto const one : *value) {
        if (auto const added = add(one); !added) return added;
    }
    return {};
}

/// The ids of a key of generation_config.json, else of config.json; or of a key of GGUF.
[[nodiscard]] inline Result<std::vector<std::int32_t>> find_token_ids(ModelSource const& source, std::string_view key,
                                                                      std::string const& gguf_key) {
    std::vector<std::int32_t> ids;
    if (source.kind == SourceKind::gguf) {
        auto file = source.open(source.weights.front());
        if (!file) return file.error();
        auto const header = read_gguf(*std::move(file));
        if (!header) return header.error();
        auto const id = header->metadata.integer(gguf_key);
        if (auto const whole = header->metadata.source().check(source.weights.front()); !whole) return whole.error();
        if (id && *id >= 0 && *id <= std::numeric_limits<std::int32_t>::max())
            ids.push_back(static_cast<std::int32_t>(*id));
        return ids;
    }
    if (!source.folder.empty()) {
        if (auto const done = add_token_ids(source, "generation_config.json", key, ids); !done) return done.error();
    }
    if (ids.empty() && !source.config.empty()) {
        if (auto const done = add_token_ids(source, source.config, key, ids); !done) return done.error();
    }
    return ids;
}

}  // namespace detail

/// The tokens that end a model's text: `eos_token_id` of generation_config.json, else of config.json; or GGUF's
/// `tokenizer.ggml.eos_token_id`. None where the files name none.
///
/// Errors  those of reading; invalid_field for what is no id
[[nodiscard]] inline Result<std::vector<std::int32_t>> end_tokens(ModelSource const& source) {
    return detail::find_token_ids(source, "eos_token_id", "tokenizer.ggml.eos_token_id");
}

/// The token that a text begins with, by the same files' `bos_token_id`; nothing where they name none.
///
/// Errors  as end_tokens
[[nodiscard]] inline Result<std::optional<std::int32_t>> begin_token(ModelSource const& source) {
    auto const ids = detail::find_token_ids(source, "bos_token_id", "tokenizer.ggml.bos_token_id");
    if (!ids) return ids.error();
    return ids->empty() ? std::optional<std::int32_t>{} : std::optional{ids->front()};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
