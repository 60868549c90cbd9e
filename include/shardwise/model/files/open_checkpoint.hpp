// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/observer.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/checkpoint_tensors.hpp>
#include <shardwise/model/files/model_source.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The largest generation_config.json that is read; published ones take a few hundred bytes.
///
/// Units  bytes
inline constexpr std::size_t max_generation_config = std::size_t{16} << 20U;

/// A JSON file that was read.
struct JsonFile {
    /// As errors show it.
    std::string path;
    JsonDocument document;
};

/// A model's files, each opened and parsed once, when somebody first asks for it: what describes the model, loads weights,
/// tokenizes and ends texts reads the same headers and the same config.json. A file that nobody asks for may be absent or broken.
///
/// Pointers that it gives live as long as it, also where it is moved. One thread asks; what fails is tried again when it is
/// asked for again. GGUF files stay open as long as it lives; safetensors are opened again to be mapped.
///
/// Memory  the headers: at most max_tensor_list for safetensors
/// Example  OpenCheckpoint files(*find_model("./Llama-3.1-8B", {}, HubCache(HubEnvironment::current())));
///          auto const checkpoint = read_checkpoint(files);
///          auto const tokenizer = load_tokenizer(files);
class OpenCheckpoint {
public:
    explicit OpenCheckpoint(ModelSource source) : source_(std::move(source)) {}

    [[nodiscard]] ModelSource const& source() const { return source_; }

    /// The config.json; null where the source names none.
    ///
    /// Errors  file_not_found, file_unreadable, unsafe_path, capacity_exceeded; malformed_file for what is no JSON
    [[nodiscard]] Result<JsonFile const*> config() {
        if (config_ || source_.config.empty()) return config_.get();
        if (!source_.config_text) return read(config_, source_.config, max_config_file, {.values = max_config_values});
        return parse(config_, source_.config, *source_.config_text, {.values = max_config_values});
    }
    /// The generation_config.json of the folder; null where there is none.
    ///
    /// Errors  as config
    [[nodiscard]] Result<JsonFile const*> generation_config() {
        if (generation_ || source_.folder.empty() || has_no_generation_) return generation_.get();
        auto const found = read(generation_, "generation_config.json", max_generation_config, {});
        has_no_generation_ = !found && found.error().code() == ErrorCode::file_not_found;
        return has_no_generation_ ? Result<JsonFile const*>(nullptr) : found;
    }

    /// The headers of the safetensors files, and the index where it alone is there. `observer` hears of each file.
    ///
    /// Errors  as read_safetensors_checkpoint
    [[nodiscard]] Result<SafetensorsCheckpoint const*> safetensors(Observer const& observer = {}) {
        if (!safetensors_) {
            std::vector<std::string> warnings;
            auto read = read_safetensors_checkpoint(source_, warnings, observer);
            if (!read) return read.error();
            safetensors_ = std::make_unique<SafetensorsCheckpoint>(*std::move(read));
            warnings_ = std::move(warnings);
        }
        return safetensors_.get();
    }
    /// What reading the safetensors files gave to say, one sentence each.
    [[nodiscard]] std::vector<std::string> const& warnings() const { return warnings_; }

    /// The GGUF file that the source names: its header and its first_tensors(); other parts are there where somebody has
    /// asked for all.
    ///
    /// Errors  as read_gguf
    [[nodiscard]] Result<GgufCheckpoint const*> named_gguf() {
        if (!named_) {
            if (source_.weights.empty())
                return Error{ErrorCode::invalid_argument}.in(source_.name).because("names no GGUF file");
            auto header = detail::read_gguf_part(source_, source_.weights.front());
            if (!header) return header.error();
            named_ = std::make_unique<GgufCheckpoint>(*std::move(header));
        }
        return named_.get();
    }
    /// All parts of a GGUF model, whichever of them the source names. `observer` hears of each part.
    ///
    /// Errors  as read_gguf; file_not_found for an absent part; malformed_file for a tensor in two parts
    [[nodiscard]] Result<GgufCheckpoint const*> gguf(Observer const& observer = {}) {
        if (all_ != nullptr) return all_;
        auto const named = named_gguf();
        if (!named) return named.error();
        auto const parts = detail::gguf_parts(source_, (*named)->header);
        if (!parts) return parts.error();
        auto& first = parts->front() == source_.weights.front() ? named_ : first_;
        if (!first) {
            auto header = detail::read_gguf_part(source_, parts->front());
            if (!header) return header.error();
            first = std::make_unique<GgufCheckpoint>(*std::move(header));
        }
        if (auto const added = detail::add_gguf_parts(source_, *parts, *first, observer); !added) {
            first->header.tensors.resize(first->first_size);
            first->others.clear();
            return added.error();
        }
        return all_ = first.get();
    }

private:
    using Slot = std::unique_ptr<JsonFile const>;

    [[nodiscard]] Result<JsonFile const*> read(Slot& slot, std::string const& name, std::size_t most,
                                               JsonLimits limits) {
        auto const file = source_.open(name);
        if (!file) return file.error();
        auto const text = read_text_file(*file, most);
        if (!text) return text.error();
        return parse(slot, file->path(), *text, limits);
    }
    [[nodiscard]] static Result<JsonFile const*> parse(Slot& slot, std::string const& path, std::string_view text,
                                                       JsonLimits limits) {
        limits.may_repeat_keys = true;
        auto document = parse_json(text, limits);
        if (!document) {
            auto error = document.error();
            return error.in(path);
        }
        slot = std::make_unique<JsonFile const>(JsonFile{path, *std::move(document)});
        return slot.get();
    }

    ModelSource source_;
    Slot config_;
    Slot generation_;
    bool has_no_generation_ = false;
    std::unique_ptr<SafetensorsCheckpoint const> safetensors_;
    std::vector<std::string> warnings_;
    std::unique_ptr<GgufCheckpoint> named_;
    /// The first part, where another one is named.
    std::unique_ptr<GgufCheckpoint> first_;
    /// That one of the two which all parts were added to.
    GgufCheckpoint const* all_ = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
