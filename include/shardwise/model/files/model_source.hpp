// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/stream.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/model/files/hub_cache.hpp>
#include <shardwise/model/files/model_folder.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The largest config.json that is read; published ones take a few KiB.
///
/// Units  bytes
inline constexpr std::size_t max_config_file = std::size_t{4} << 20U;

/// The most values that a config.json may hold; thousands are the names of a classifier's labels.
inline constexpr std::size_t max_config_values = 100'000;

/// What there is to read of a model.
enum class SourceKind : std::uint8_t {
    preset,       // a name that the library knows
    config,       // a config.json alone
    safetensors,  // one file, several, or an index that names them
    gguf,         // one file, or the parts of a split one
};

/// The files that a user's MODEL stands for.
struct ModelSource {
    SourceKind kind = SourceKind::preset;
    /// What to call the model: the preset, "org/name", or the last part of the path.
    std::string name;
    /// The folder that file names are relative to; empty: they are paths as they stand.
    std::string folder;
    /// A config.json; may be empty for files of tensors.
    std::string config;
    /// The text of `config`, where it came from a pipe or from standard input, which give it once.
    std::optional<std::string> config_text;
    /// A model.safetensors.index.json; empty: `weights` are all.
    std::string index;
    std::vector<std::string> weights;
    /// What the user should know of, one sentence each.
    std::vector<std::string> warnings;

    /// Opens one of the files above; a link is followed wherever it points.
    ///
    /// Errors  unsafe_path, file_not_found, file_unreadable
    [[nodiscard]] Result<RegularFile> open(std::string_view file) const {
        if (folder.empty()) return RegularFile::open(std::string(file));
        auto const root = ModelFolder::open(folder);
        if (!root) return root.error();
        return root->listed_file(file);
    }

    /// Opens a file whose name comes out of a file (a shard that an index names): it must stay in the folder.
    ///
    /// Errors  as open; unsafe_path for a link that leaves the folder too
    [[nodiscard]] Result<RegularFile> open_named(std::string_view file) const {
        if (folder.empty()) return RegularFile::open(std::string(file));
        auto const root = ModelFolder::open(folder);
        if (!root) return root.error();
        return root->file(file);
    }
};

namespace detail {

[[nodiscard]] constexpr bool ends_with_ignoring_case(std::string_view text, std::string_view end) {
    return text.size() >= end.size() && equal_ignoring_case(text.substr(text.size() - end.size()), end);
}

[[nodiscard]] inline std::string_view last_part(std::string_view path) {
    while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
    auto const slash = path.rfind('/');
    return slash == std::string_view::npos || path.size() == 1 ? path : path.substr(slash + 1);
}

/// True for "name-00002-of-00005.gguf"; `stem` becomes "name".
[[nodiscard]] inline bool is_split_part(std::string_view name, std::string_view& stem) {
    constexpr std::string_view pattern = "-00000-of-00000.gguf";
    if (name.size() <= pattern.size()) return false;
    auto const tail = name.substr(name.size() - pattern.size());
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        bool const is_number = pattern[i] == '0';
        if (is_number ? tail[i] < '0' || tail[i] > '9' : tail[i] != pattern[i]) return false;
    }
    stem = name.substr(0, name.size() - pattern.size());
    return true;
}

/// Decides which files of a folder are the model's weights.
class FolderScan {
public:
    explicit FolderScan(ModelSource& source) : source_(source), names_(list_folder(source.folder)) {}

    [[nodiscard]] Result<> run() {
        if (has("config.json")) source_.config = "config.json";
        // A pipeline of diffusers: its index says so, and is refused where it is read.
        if (source_.config.empty() && has("model_index.json")) {
            source_.kind = SourceKind::config;
            source_.config = "model_index.json";
            return {};
        }
        auto const safetensors = all(".safetensors");
        auto const gguf = all(".gguf");
        if (has("model.safetensors.index.json")) {
            source_.index = "model.safetensors.index.json";
            source_.kind = SourceKind::safetensors;
            return {};
        }
        if (!safetensors.empty()) return take_safetensors(safetensors);
        if (!gguf.empty()) return take_gguf(gguf);
        return take_config();
    }

private:
    [[nodiscard]] bool has(std::string_view name) const {
        for (auto const& entry : names_) {
            if (entry == name) return true;
        }
        return false;
    }
    [[nodiscard]] std::vector<std::string> all(std::string_view extension) const {
        std::vector<std::string> out;
        for (auto const& entry : names_) {
            if (ends_with_ignoring_case(entry, extension)) out.push_back(entry);
        }
        return out;
    }
    Result<> take_safetensors(std::vector<std::string> const& files) {
        source_.kind = SourceKind::safetensors;
        if (has("model.safetensors")) {
            source_.weights = {"model.safetensors"};
            return {};
        }
        // Mistral publishes a second copy of the weights under this name.
        constexpr std::string_view second_copy = "consolidated";
        for (auto const& file : files) {
            if (file.compare(0, second_copy.size(), second_copy) != 0) source_.weights.push_back(file);
        }
        if (source_.weights.empty()) source_.weights = files;
        return {};
    }
    Result<> take_gguf(std::vector<std::string> const& files) {
        source_.kind = SourceKind::gguf;
        source_.weights = files;
        if (files.size() == 1) return {};
        std::string_view first;
        bool is_one_model = is_split_part(files.front(), first);
        for (auto const& file : files) {
            std::string_view stem;
            is_one_model = is_one_model && is_split_part(file, stem) && stem == first;
        }
        if (is_one_model) return {};
        return Error{ErrorCode::invalid_argument}
            .in(source_.folder)
            .because("has several GGUF files")
            .got(static_cast<std::int64_t>(files.size()))
            .fix("name one of them, such as " + files.front());
    }
    Result<> take_config() {
        std::string other;
        for (auto const& entry : names_) {
            bool const is_other = ends_with_ignoring_case(entry, ".bin") || ends_with_ignoring_case(entry, ".pth") ||
                                  ends_with_ignoring_case(entry, ".pt") || ends_with_ignoring_case(entry, ".ckpt");
            if (is_other && other.empty()) other = entry;
        }
        source_.kind = SourceKind::config;
        if (!source_.config.empty()) {
            if (!other.empty()) {
                source_.warnings.push_back(escaped(other) + " is not read; sizes come from config.json");
            }
            return {};
        }
        if (!other.empty()) {
            return Error{ErrorCode::unsupported}
                .in(source_.folder)
                .at(other)
                .because("is not a format that is read")
                .fix("convert it to safetensors");
        }
        return Error{ErrorCode::file_not_found}
            .in(source_.folder)
            .because("has no config.json, no .safetensors and no .gguf file")
            .fix("name the folder of a model");
    }

    ModelSource& source_;
    std::vector<std::string> names_;
};

[[nodiscard]] inline Result<ModelSource> folder_source(std::string path, std::string name) {
    ModelSource source;
    source.name = std::move(name);
    source.folder = std::move(path);
    if (auto const root = ModelFolder::open(source.folder); !root) return root.error();
    if (auto const scanned = FolderScan(source).run(); !scanned) return scanned.error();
    return source;
}

[[nodiscard]] inline Result<ModelSource> file_source(std::string const& path) {
    auto const file = RegularFile::open(path);
    if (!file) return file.error();
    ModelSource source;
    source.name = last_part(path);
    std::array<char, 4> magic{};
    auto const count = file->read(0, magic.data(), magic.size());
    bool const has_gguf_magic = count && *count == 4 && std::string_view{magic.data(), 4} == "GGUF";
    if (ends_with_ignoring_case(path, ".json")) {
        source.kind = SourceKind::config;
        source.config = path;
        return source;
    }
    bool const is_safetensors = ends_with_ignoring_case(path, ".safetensors");
    if (!is_safetensors && !has_gguf_magic && !ends_with_ignoring_case(path, ".gguf")) {
        return Error{ErrorCode::unsupported}
            .in(path)
            .because("is not a kind of model file that is read")
            .fix("known: .json (a config.json), .safetensors, .gguf");
    }
    source.kind = is_safetensors ? SourceKind::safetensors : SourceKind::gguf;
    source.weights = {path};
    if (!is_safetensors) return source;
    auto const slash = path.rfind('/');
    auto const folder = slash == std::string::npos ? std::string(".") : path.substr(0, slash + 1);
    auto const root = ModelFolder::open(folder);
    if (root && root->listed_file("config.json"))
        source.config = slash == std::string::npos ? "config.json" : folder + "config.json";
    return source;
}

/// Reads a config.json from a pipe or from standard input. Files of weights are read here and there, so they need a name.
[[nodiscard]] inline Result<ModelSource> stream_source(std::string const& path) {
    auto const shown = stream_name(path);
    auto const refuse = [&shown](std::string_view reason) {
        return Error{ErrorCode::unsupported}.in(shown).because(reason).fix("name the file, or give its config.json");
    };
    if (ends_with_ignoring_case(path, ".gguf") || ends_with_ignoring_case(path, ".safetensors"))
        return Error{ErrorCode::file_unreadable}.in(shown).because("is a pipe, not a file").fix("name the file itself");
    auto text = read_stream(path, max_config_file);
    if (!text) return text.error();
    if (text->starts_with("GGUF")) return refuse("gives a GGUF file, which is read by its name only");
    // A length of eight bytes, then a JSON object.
    if (text->size() > 8 && (*text)[8] == '{' && (*text)[7] == '\0')
        return refuse("gives a safetensors file, which is read by its name only");
    if (text->size() > max_config_file) {
        return Error{ErrorCode::capacity_exceeded}
            .in(shown)
            .because("gives more bytes than a config.json may have")
            .at_most(static_cast<std::int64_t>(max_config_file));
    }
    if (text->find_first_not_of(" \t\r\n") == std::string::npos) {
        return Error{ErrorCode::malformed_file}.in(shown).because("is empty").fix(
            "give a config.json: shardwise estimate - < config.json");
    }
    ModelSource source;
    source.kind = SourceKind::config;
    source.name = is_standard_input(path) ? shown : std::string(last_part(path));
    source.config = shown;
    source.config_text = *std::move(text);
    return source;
}

/// What a MODEL that leads nowhere may have meant.
[[nodiscard]] inline Error unknown_model(std::string const& model, std::span<std::string_view const> presets,
                                         HubCache const& cache) {
    constexpr std::size_t longest = 128;
    auto const wanted = std::string_view{model}.substr(0, longest);
    ClosestName closest(wanted);
    for (auto const preset : presets) closest.offer(preset);
    auto const slash = wanted.rfind('/');
    auto const folder = slash == std::string_view::npos ? std::string(".") : std::string(wanted.substr(0, slash + 1));
    auto near = list_folder(folder, 2000);
    for (auto& entry : near) {
        if (slash != std::string_view::npos) entry.insert(0, folder);
        if (entry.size() <= longest) closest.offer(entry);
    }
    auto const cached = cache.repositories();
    for (auto const& repository : cached) {
        if (repository.size() <= longest) closest.offer(repository);
    }
    Error error{ErrorCode::unknown_name};
    bool const is_repository = slash != std::string_view::npos && HubCache::is_repository_name(model);
    error.in(model).because(is_repository
                                ? "is neither a file nor a folder, nor in the Hugging Face cache " + cache.folder()
                                : std::string("is no preset, file or folder, nor in the Hugging Face cache"));
    if (!closest.best().empty()) return error.fix("did you mean " + std::string(closest.best()) + "?");
    return error.fix("name a preset, a config.json, a .safetensors or .gguf file, a folder, or org/name");
}

}  // namespace detail

/// Finds what a user's MODEL means: a preset, a .json, .gguf or .safetensors file, a folder, or org/name in the
/// Hugging Face cache, in this order. Reads names and the first bytes of a file only; of a pipe, and of standard input
/// ("-" or /dev/stdin), all: a config.json.
///
/// Errors  unknown_name with the closest name; file_not_found for a folder without a model; file_unreadable,
///         unsupported, invalid_argument, unsafe_path
[[nodiscard]] inline Result<ModelSource> find_model(std::string const& model, std::span<std::string_view const> presets,
                                                    HubCache const& cache) {
    if (model.empty()) {
        return Error{ErrorCode::invalid_argument}.in("MODEL").because("is empty").fix("name a preset, a file, a folder or org/name");
    }
    for (auto const preset : presets) {
        if (!equal_ignoring_case(preset, model)) continue;
        ModelSource source;
        source.name = preset;
        return source;
    }
    if (is_stream(model)) return detail::stream_source(model);
    struct stat status {};
    bool const has_nul = model.find('\0') != std::string::npos;
    if (!has_nul && ::stat(model.c_str(), &status) == 0) {
        if (S_ISDIR(status.st_mode)) return detail::folder_source(model, std::string(detail::last_part(model)));
        return detail::file_source(model);
    }
    if (!has_nul && errno != ENOENT && errno != ENOTDIR) return RegularFile::unreadable(model, errno);
    if (cache.contains(model)) {
        auto snapshot = cache.snapshot(model);
        if (!snapshot) return snapshot.error();
        return detail::folder_source(*std::move(snapshot), model);
    }
    return detail::unknown_model(model, presets, cache);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
