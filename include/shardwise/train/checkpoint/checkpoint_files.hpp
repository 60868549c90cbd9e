// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/model_source.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A file that stands in every checkpoint as it is.
struct CopiedFile {
    std::string name;
    std::string text;
};

/// What a model's folder has beside its weights. The texts are kept, so that a run does not depend on the folder any more.
struct CheckpointFiles {
    std::vector<CopiedFile> files;

    /// Adds a file under a name, or replaces the one that has it.
    void put(std::string_view name, std::string text) {
        for (auto& file : files) {
            if (file.name == name) return file.text = std::move(text), void();
        }
        files.push_back({std::string(name), std::move(text)});
    }
    [[nodiscard]] Bytes bytes() const {
        std::size_t sum = 0;
        for (auto const& file : files) sum += file.text.size();
        return Bytes{static_cast<std::int64_t>(sum)};
    }
};

namespace detail {

/// Source  transformers 4.57: what save_pretrained of tokenizers and models writes beside weights
inline constexpr std::array<std::string_view, 12> tokenizer_files{"tokenizer.json",
                                                                  "tokenizer_config.json",
                                                                  "special_tokens_map.json",
                                                                  "added_tokens.json",
                                                                  "vocab.json",
                                                                  "merges.txt",
                                                                  "vocab.txt",
                                                                  "tokenizer.model",
                                                                  "spiece.model",
                                                                  "chat_template.jinja",
                                                                  "chat_template.json",
                                                                  "generation_config.json"};

inline constexpr std::size_t max_copied_file = std::size_t{256} << 20U;

}  // namespace detail

/// Reads config.json and the tokenizer's files of a model: what a checkpoint needs to be a model by itself. A config.json alone
/// has no tokenizer: put the files of one, if there is any, by CheckpointFiles::put.
///
/// Checkpoints of an adapter are no models: their base may be packed, and of a GGUF file there are none of these files.
///
/// Errors  unsupported for presets and GGUF files, which have no config.json, and for a config.json of packed weights; file_not_found,
///         file_unreadable, malformed_file
[[nodiscard]] inline Result<CheckpointFiles> read_checkpoint_files(ModelSource const& source, bool is_adapter = false) {
    if (is_adapter && source.kind == SourceKind::gguf) return CheckpointFiles{};
    if (source.config.empty() || source.kind == SourceKind::preset || source.kind == SourceKind::gguf)
        return Error{ErrorCode::unsupported}
            .in(source.name)
            .because("has no config.json, which every checkpoint needs")
            .fix("give a config.json, or a folder that has one");
    CheckpointFiles out;
    auto config = source.config_text;
    if (!config) {
        auto const file = source.open(source.config);
        if (!file) return file.error();
        auto text = read_text_file(*file, max_config_file);
        if (!text) return text.error();
        config = std::move(*text);
    }
    auto const document = parse_json(*config, {.values = max_config_values, .may_repeat_keys = true});
    if (!document) return Error{document.error()}.in(source.config);
    auto const packing = document->root().find("quantization_config");
    if (packing && !packing->is_null() && !is_adapter)
        return Error{ErrorCode::unsupported}
            .in(source.config)
            .at("quantization_config")
            .because("says that weights are packed, and checkpoints of training hold them as they are")
            .fix("remove it from config.json");
    out.put("config.json", std::move(*config));
    if (source.folder.empty()) return out;
    for (auto const name : detail::tokenizer_files) {
        auto const file = source.open(name);
        if (!file && file.error().code() == ErrorCode::file_not_found) continue;
        if (!file) return file.error();
        auto text = read_text_file(*file, detail::max_copied_file);
        if (!text) return text.error();
        out.put(name, std::move(*text));
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
