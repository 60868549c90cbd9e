// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>
#include <shardwise/session/pooling.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a sentence-transformers checkpoint does with the states of a text's tokens.
struct SentenceModules {
    Pooling pooling = Pooling::mean;
    /// A Normalize module follows.
    bool is_normalized = false;
    /// Longer texts are cut to so many tokens, those around a text included.
    std::optional<std::int64_t> max_tokens;
};

namespace detail {

/// Reads modules.json and the files that it names.
class SentenceModulesReader {
public:
    explicit SentenceModulesReader(OpenCheckpoint& files) : files_(files), source_(files.source()) {}

    Result<std::optional<SentenceModules>> read() {
        if (source_.kind == SourceKind::gguf) return read_gguf_pooling();
        if (source_.folder.empty() || !source_.open(modules_file)) return std::optional<SentenceModules>{};
        auto const document = parse_file(source_.open(modules_file), modules_file);
        if (!document) return document.error();
        if (!document->root().is_array()) return malformed(modules_file, "modules are a list");
        bool has_pooling = false;
        for (auto const entry : document->root()) {
            auto const type = entry.find("type");
            auto const path = entry.find("path");
            if (!type || !type->string()) return malformed(modules_file, "a module has a type");
            auto const name = last_name(*type->string());
            auto const folder = path && path->string() ? std::string(*path->string()) : std::string();
            auto const prefix = folder.empty() ? "" : folder + "/";
            if (name == "Transformer") {
                if (auto const done = read_transformer(prefix); !done) return done.error();
                continue;
            }
            if (name == "Normalize") {
                out_.is_normalized = true;
                continue;
            }
            if (name != "Pooling") return unknown(modules_file, *type->string(), "is a module that is not run");
            auto const pooling = read_pooling(prefix + "config.json");
            if (!pooling) return pooling.error();
            out_.pooling = *pooling;
            has_pooling = true;
        }
        if (!has_pooling) return malformed(modules_file, "has no Pooling module");
        if (auto const clear = document->check_repeats(); !clear) return Error{clear.error()}.in(path_of(modules_file));
        return std::optional{out_};
    }

private:
    static constexpr std::string_view modules_file = "modules.json";
    static constexpr std::size_t largest_file = std::size_t{1} << 20U;

    struct Mode {
        std::string_view key;
        std::string_view word;
        std::optional<Pooling> pooling;
    };
    /// Source  sentence-transformers 5 models/Pooling.py: the flags of its config, and the words of `pooling_mode`
    static constexpr std::array<Mode, 7> modes{{{"pooling_mode_cls_token", "cls", Pooling::cls},
                                                {"pooling_mode_mean_tokens", "mean", Pooling::mean},
                                                {"pooling_mode_lasttoken", "lasttoken", Pooling::last},
                                                {"pooling_mode_max_tokens", "max", std::nullopt},
                                                {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", std::nullopt},
                                                {"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt},
                                                {"pooling_mode_max_seq_tokens", "max_seq", std::nullopt}}};

    [[nodiscard]] static std::string_view last_name(std::string_view type) {
        auto const dot = type.rfind('.');
        return dot == std::string_view::npos ? type : type.substr(dot + 1);
    }
    [[nodiscard]] Error malformed(std::string_view file, std::string_view reason) const {
        return Error{ErrorCode::malformed_file}.in(path_of(file)).because(reason).fix("give --pooling mean, cls or last");
    }
    [[nodiscard]] Error unknown(std::string_view file, std::string_view what, std::string_view reason) const {
        return Error{ErrorCode::unsupported}
            .in(path_of(file))
            .at(escaped(what))
            .because(std::string(reason) + ": the vectors would be others")
            .fix("give --pooling mean, cls, last or none to do without it");
    }
    [[nodiscard]] std::string path_of(std::string_view file) const {
        return source_.folder + (source_.folder.ends_with('/') ? "" : "/") + std::string(file);
    }
    [[nodiscard]] Result<JsonDocument> parse_file(Result<RegularFile> const& file, std::string_view name) const {
        if (!file) return file.error();
        auto const text = read_text_file(*file, largest_file);
        if (!text) return text.error();
        auto document = parse_json(*text, {.may_repeat_keys = true});
        if (document) return document;
        auto error = document.error();
        return error.in(path_of(name));
    }
    /// A file of a module, whose folder is a name that comes out of modules.json; without one it is the model's own.
    [[nodiscard]] Result<RegularFile> open_module_file(std::string const& name) const {
        return name.find('/') == std::string::npos ? source_.open(name) : source_.open_named(name);
    }
    /// The length of texts, and lower case, which is refused: it is not that of the tokenizer.
    ///
    /// Source  sentence-transformers 5, models/Transformer.py, load
    Result<> read_transformer(std::string const& prefix) {
        for (std::string_view const usual :
             {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
              "sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
              "sentence_xlnet_config.json"}) {
            auto const name = prefix + std::string(usual);
            auto const file = open_module_file(name);
            if (!file && file.error().code() == ErrorCode::file_not_found) continue;
            auto const document = parse_file(file, name);
            if (!document) return document.error();
            auto const config = document->root();
            if (auto const lowers = config.find("do_lower_case"); lowers && lowers->boolean().value_or(false)) {
                return unknown(name, "do_lower_case", "is true, which is not done");
            }
            auto const most = config.find("max_seq_length");
            if (auto const clear = document->check_repeats(); !clear) return Error{clear.error()}.in(path_of(name));
            if (!most || most->is_null()) return {};
            if (most->integer().value_or(0) < 1) return malformed(name, "max_seq_length is an integer above 0");
            out_.max_tokens = most->integer();
            return {};
        }
        return {};
    }
    /// `bert.pooling_type`, in the file of any architecture.
    ///
    /// Source  llama.cpp, llama.h, llama_pooling_type
    [[nodiscard]] Result<std::optional<SentenceModules>> read_gguf_pooling() {
        auto const named = files_.named_gguf();
        if (!named) return named.error();
        auto const& metadata = (*named)->header.metadata;
        auto const key = metadata.text("general.architecture") + ".pooling_type";
        auto const type = metadata.integer(key);
        if (!type) return std::optional<SentenceModules>{};
        constexpr std::array<Pooling, 4> poolings{Pooling::none, Pooling::mean, Pooling::cls, Pooling::last};
        if (*type < 0 || *type >= static_cast<std::int64_t>(poolings.size())) {
            return Error{ErrorCode::unsupported}
                .in(source_.weights.front())
                .at(key)
                .because("is a pooling that is not run")
                .got(*type)
                .fix("give --pooling mean, cls, last or none to do without it");
        }
        out_.pooling = poolings[static_cast<std::size_t>(*type)];
        return std::optional{out_};
    }
    /// One mode; several that are true at once are vectors one after another, which are not made.
    [[nodiscard]] Result<Pooling> read_pooling(std::string const& name) const {
        auto const document = parse_file(open_module_file(name), name);
        if (!document) return document.error();
        auto const config = document->root();
        Mode const* chosen = nullptr;
        if (auto const word = config.find("pooling_mode"); word && word->string()) {
            for (auto const& mode : modes) {
                if (mode.word == *word->string()) chosen = &mode;
            }
            if (chosen == nullptr) return unknown(name, *word->string(), "is a pooling that is not known");
        }
        for (auto const& mode : modes) {
            auto const flag = config.find(mode.key);
            if (!flag || !flag->boolean().value_or(false) || chosen == &mode) continue;
            if (chosen != nullptr) return unknown(name, mode.key, "is true beside another, and they are not put together");
            chosen = &mode;
        }
        if (chosen == nullptr) return malformed(name, "names no pooling");
        if (auto const clear = document->check_repeats(); !clear) return Error{clear.error()}.in(path_of(name));
        if (!chosen->pooling) return unknown(name, chosen->word, "is a pooling that is not run");
        return *chosen->pooling;
    }

    OpenCheckpoint& files_;
    ModelSource const& source_;
    SentenceModules out_;
};

}  // namespace detail

/// What modules.json of a checkpoint's folder asks for: the pooling of its Pooling module's config.json, whether a
/// Normalize module follows, and how long a text may be; of a GGUF file, its pooling_type. Nothing where there is neither.
///
/// Errors  unsupported for modules and poolings that are not run, by name; malformed_file; those of the files
/// Source  sentence-transformers 5, its saved models
[[nodiscard]] inline Result<std::optional<SentenceModules>> read_sentence_modules(OpenCheckpoint& files) {
    return detail::SentenceModulesReader(files).read();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
