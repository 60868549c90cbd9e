// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Adds the id or the ids of a key of a JSON file, where the file and the key are there.
[[nodiscard]] inline Result<> add_token_ids(Result<JsonFile const*> const& opened, std::string_view key,
                                            std::vector<std::int32_t>& ids) {
    if (!opened) return opened.error().code() == ErrorCode::file_not_found ? Result<>{} : Result<>(opened.error());
    auto const* const file = *opened;
    if (file == nullptr || !file->document.root().is_object()) return {};
    auto const value = file->document.root().find(key);
    if (auto const clear = file->document.check_repeats(); !clear) return Error{clear.error()}.in(file->path);
    if (!value || value->is_null()) return {};
    auto const add = [&](JsonValue const& one) -> Result<> {
        auto const id = one.integer();
        if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max()) {
            return Error{ErrorCode::invalid_field}.in(file->path).at(key).because("is no token's id");
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
[[nodiscard]] inline Result<std::vector<std::int32_t>> find_token_ids(OpenCheckpoint& files, std::string_view key,
                                                                      std::string const& gguf_key) {
    std::vector<std::int32_t> ids;
    if (files.source().kind == SourceKind::gguf) {
        auto const named = files.named_gguf();
        if (!named) return named.error();
        auto const& metadata = (*named)->header.metadata;
        auto const id = metadata.integer(gguf_key);
        if (auto const whole = metadata.source().check(files.source().weights.front()); !whole) return whole.error();
        if (id && *id >= 0 && *id <= std::numeric_limits<std::int32_t>::max())
            ids.push_back(static_cast<std::int32_t>(*id));
        return ids;
    }
    if (auto const done = add_token_ids(files.generation_config(), key, ids); !done) return done.error();
    if (ids.empty()) {
        if (auto const done = add_token_ids(files.config(), key, ids); !done) return done.error();
    }
    return ids;
}

}  // namespace detail

/// The tokens that end a model's text: `eos_token_id` of generation_config.json, else of config.json; or GGUF's
/// `tokenizer.ggml.eos_token_id`. None where the files name none.
///
/// Errors  those of reading; invalid_field for what is no id
[[nodiscard]] inline Result<std::vector<std::int32_t>> end_tokens(OpenCheckpoint& files) {
    return detail::find_token_ids(files, "eos_token_id", "tokenizer.ggml.eos_token_id");
}

/// The same, for files that are opened for it alone.
[[nodiscard]] inline Result<std::vector<std::int32_t>> end_tokens(ModelSource const& source) {
    OpenCheckpoint files(source);
    return end_tokens(files);
}

/// The token that a text begins with, by the same files' `bos_token_id`; nothing where they name none.
///
/// Errors  as end_tokens
[[nodiscard]] inline Result<std::optional<std::int32_t>> begin_token(OpenCheckpoint& files) {
    auto const ids = detail::find_token_ids(files, "bos_token_id", "tokenizer.ggml.bos_token_id");
    if (!ids) return ids.error();
    return ids->empty() ? std::optional<std::int32_t>{} : std::optional{ids->front()};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
