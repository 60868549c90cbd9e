// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/files/config_fields.hpp>
#include <shardwise/model/files/config_keys.hpp>
#include <shardwise/model/files/config_rope.hpp>
#include <shardwise/model/files/config_task.hpp>
#include <shardwise/model/files/file_family.hpp>
#include <shardwise/model/files/model_source.hpp>
#include <shardwise/model/files/quantization_config.hpp>
#include <shardwise/model/files/tree_limits.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a config.json says.
struct ConfigFile {
    /// With transformers' defaults for absent fields; not yet completed (describe does that).
    ModelConfig config;
    /// How the checkpoint beside it is packed; empty: it stores plain numbers.
    std::optional<CheckpointQuantization> quantization;
    /// What the user should know of, one sentence each.
    std::vector<std::string> warnings;
};

namespace detail {

/// A config.json and the model that it describes: where the file does not state a dtype, in the usual one of its packing.
struct DescribedConfig {
    ConfigFile file;
    Model model;
};

/// Which object of a configuration describes the model, and its family.
struct ConfigPart {
    JsonValue object;
    FileFamily const* family;
    bool is_text_config;
    /// The text part of a model with other inputs whose keys stand beside those of the other parts.
    bool is_flat = false;
};

[[nodiscard]] inline Error unknown_model_type(FileFamilies families, std::string_view file,
                                              std::string_view model_type) {
    std::string known;
    ClosestName closest(model_type.substr(0, 64));
    for (auto const& family : families) {
        known += (known.empty() ? "" : ", ") + std::string(family.name);
        closest.offer(family.name);
    }
    auto reason = "\"" + std::string(model_type) + "\" is not a known architecture";
    if (!closest.best().empty()) reason += "; did you mean " + std::string(closest.best()) + "?";
    return Error{ErrorCode::unknown_name}.in(file).at("model_type").because(reason).fix("known: " + known);
}

/// The family whose text model is that of whole models of this type, where their text_config need not name it: gemma3's is
/// gemma3_text's. With `is_flat` one whose keys may stand in the config.json itself. Null: none.
[[nodiscard]] inline FileFamily const* text_family_of(FileFamilies families, std::string_view whole_type,
                                                      bool is_flat = false) {
    auto const text_type = std::string(whole_type) + "_text";
    FileFamily const* found = nullptr;
    for (auto const& family : families) {
        bool const is_named = !family.text_part_of.empty() && family.text_part_of == whole_type;
        if ((is_named || family.name == text_type) && (!is_flat || family.may_be_flat)) found = &family;
    }
    return found;
}

/// Finds the part that describes the language model: the whole, or `text_config` of a model of several kinds of input.
[[nodiscard]] inline Result<ConfigPart> find_part(FileFamilies families, ConfigObject const& whole) {
    std::string_view whole_type;
    auto const type = whole.find_set("model_type");
    if (type) {
        auto const name = whole.string("model_type", *type);
        if (!name) return name.error();
        whole_type = *name;
    }
    auto const text = whole.find_set("text_config");
    auto const* const own = type ? find_family(families, whole_type) : nullptr;
    if (!text || own != nullptr) {
        if (!type && whole.find("weight_map")) {
            return Error{ErrorCode::invalid_argument}
                .in(whole.file())
                .because("is an index of weights, not a configuration")
                .fix("name the folder that it is in");
        }
        if (!type && whole.find("class") && (whole.find("children") || whole.find("params"))) {
            return Error{ErrorCode::invalid_argument}
                .in(whole.file())
                .because("is a tree of modules, not a configuration")
                .fix("pass it with --tree");
        }
        if (!type) return whole.error(ErrorCode::missing_field, "model_type", "is needed: it names the architecture");
        if (own != nullptr) return ConfigPart{whole.value(), own, false};
        auto const* const flat = text_family_of(families, whole_type, true);
        if (flat == nullptr) return unknown_model_type(families, whole.file(), whole_type);
        return ConfigPart{whole.value(), flat, false, true};
    }
    if (!text->is_object()) return whole.wrong_type("text_config", *text, "an object");
    ConfigObject const part(*text, whole.file(), "text_config.");
    if (auto const inner = part.find_set("model_type")) {
        auto const name = part.string("model_type", *inner);
        if (!name) return name.error();
        auto const* const family = find_family(families, *name);
        if (family == nullptr) return unknown_model_type(families, whole.file(), *name);
        return ConfigPart{*text, family, true};
    }
    auto const* const named = text_family_of(families, whole_type);
    if (named == nullptr)
        return part.error(ErrorCode::missing_field, "model_type", "is needed: it names the architecture");
    return ConfigPart{*text, named, true};
}

/// The counted class: the first of `architectures`; empty where there is none.
[[nodiscard]] inline Result<std::string_view> read_class(ConfigObject const& object) {
    auto const found = object.find_set("architectures");
    if (!found) return std::string_view{};
    if (!found->is_array()) return object.wrong_type("architectures", *found, "a list");
    if (found->empty()) return std::string_view{};
    auto const name = object.string("architectures", *found->begin());
    if (name && name->size() > 64)
        return object.error(ErrorCode::invalid_field, "architectures", "has too long a class name");
    return name;
}

/// The number of labels of a classifying head: `id2label`'s, else `num_labels`; 0 where neither is set.
[[nodiscard]] inline Result<std::int64_t> read_labels(ConfigObject const& object) {
    if (auto const names = object.find_set("id2label")) {
        if (!names->is_object()) return object.wrong_type("id2label", *names, "an object");
        return static_cast<std::int64_t>(names->size());
    }
    auto const count = object.find_set("num_labels");
    return count ? object.integer("num_labels", *count, 1) : std::int64_t{0};
}

/// `dtype`, else the older `torch_dtype`; nothing where neither is set.
[[nodiscard]] inline Result<std::optional<Dtype>> read_dtype(ConfigObject const& object) {
    for (std::string_view const key : {"dtype", "torch_dtype"}) {
        auto const found = object.find_set(key);
        if (!found) continue;
        auto const name = object.string(key, *found);
        if (!name) return name.error();
        if (*name == "auto") return std::optional<Dtype>{};
        auto const dtype = parse_dtype(*name);
        if (!dtype)
            return object.error(ErrorCode::invalid_field, key, "\"" + std::string(*name) + "\" is not a known dtype");
        if (!traits(*dtype).is_floating || bits(*dtype) < 8 || bits(*dtype) > 64) {
            return object.error(ErrorCode::invalid_field, key, "\"" + std::string(*name) + "\" cannot hold parameters")
                .fix("use float32, float16 or bfloat16");
        }
        return std::optional<Dtype>{*dtype};
    }
    return std::optional<Dtype>{};
}

/// Fields that are lists over layers.
[[nodiscard]] inline Result<> read_layer_lists(ConfigObject const& object, FileFamily const& family,
                                               ModelConfig& config) {
    if (auto const types = object.find_set("layer_types")) {
        if (!types->is_array()) return object.wrong_type("layer_types", *types, "a list");
        std::int64_t layer = 0;
        for (auto const entry : *types) {
            auto const word = object.string("layer_types", entry);
            if (!word) return word.error();
            auto const local = family.local_kind;
            if (*word != "full_attention" && *word != local) {
                return object
                    .error(ErrorCode::unsupported, "layer_types",
                           "\"" + std::string(*word) + "\" is not a known kind of layer")
                    .fix("known: full_attention, " + std::string(local));
            }
            if (layer >= LayerSet::capacity) break;
            if (*word == local) config.local_layers.insert(layer);
            ++layer;
        }
        config.layer_types_count = static_cast<std::int64_t>(types->size());
    }
    auto const key = family.sparse_layers_key;
    if (auto const sparse = key.empty() ? std::nullopt : object.find_set(key)) {
        if (!sparse->is_array()) return object.wrong_type(key, *sparse, "a list");
        LayerSet with_experts;
        for (auto const entry : *sparse) {
            auto const layer = object.integer(key, entry, 0);
            if (!layer) return layer.error();
            if (*layer < LayerSet::capacity) with_experts.insert(*layer);
        }
        for (std::int64_t layer = 0; layer < config.layers && layer < LayerSet::capacity; ++layer)
            if (!with_experts.contains(layer)) config.dense_layers.insert(layer);
        config.decoder_sparse_step = 1;
    }
    // Only the families whose fields gave this a value read the list that goes with it.
    if (auto const turning = config.rope_free_interval > 0 ? object.find_set("no_rope_layers") : std::nullopt) {
        if (!turning->is_array()) return object.wrong_type("no_rope_layers", *turning, "a list");
        std::int64_t layer = 0;
        for (auto const entry : *turning) {
            auto const turns = object.integer("no_rope_layers", entry, 0);
            if (!turns) return turns.error();
            if (layer >= LayerSet::capacity) break;
            if (*turns == 0) config.rope_free_layers.insert(layer);
            ++layer;
        }
        config.rope_list_count = static_cast<std::int64_t>(turning->size());
    }
    if (auto const dense = object.find_set("mlp_only_layers")) {
        if (!dense->is_array()) return object.wrong_type("mlp_only_layers", *dense, "a list");
        for (auto const entry : *dense) {
            auto const layer = object.integer("mlp_only_layers", entry, 0);
            if (!layer) return layer.error();
            if (*layer < LayerSet::capacity) config.dense_layers.insert(*layer);
        }
    }
    return {};
}

/// Layers are limited before any family loops over them.
[[nodiscard]] inline Result<> check_layers(ConfigObject const& object, ModelConfig const& config) {
    if (config.layers <= LayerSet::capacity) return {};
    return object.error(ErrorCode::capacity_exceeded, "num_hidden_layers", "is more than this library plans for")
        .got(config.layers)
        .at_most(LayerSet::capacity);
}

/// Asks the family whether the values go together and whether the model they describe has a size.
[[nodiscard]] inline Result<Model> describe_config(FileFamily const& family, ConfigFile const& read,
                                                   std::string_view file) {
    auto config = read.config;
    if (!config.dtype && read.quantization) config.dtype = usual_dtype(*read.quantization);
    auto model = family.describe(config);
    if (!model) {
        auto error = model.error();
        if (error.subject().empty()) error.in(file);
        return error;
    }
    auto const limits = check_tree_limits(model->tree);
    if (limits) return model;
    auto error = limits.error();
    return error.in(file);
}

[[nodiscard]] inline Result<DescribedConfig> read_family(ConfigObject const& whole, ConfigPart const& part) {
    auto const& family = *part.family;
    ConfigFile out;
    ConfigObject const object(part.object, whole.file(), part.is_text_config ? "text_config." : "");
    out.config.model_type = family.name;
    if (auto const read = object.read(family.fields, out.config); !read) return read.error();
    if (auto const checked = check_layers(object, out.config); !checked) return checked.error();
    if (auto const read = read_layer_lists(object, family, out.config); !read) return read.error();
    if (auto const read = read_rope_fields(object, out.config.rope, out.warnings); !read) return read.error();

    auto dtype = read_dtype(object);
    if (dtype && !*dtype && part.is_text_config) dtype = read_dtype(whole);
    if (!dtype) return dtype.error();
    out.config.dtype = *dtype;

    auto packed = read_quantization(object);
    if (packed && !*packed && part.is_text_config) packed = read_quantization(whole);
    if (!packed) return packed.error();
    out.quantization = *std::move(packed);

    auto name = read_class(object);
    bool const is_whole_class = name && name->empty() && part.is_text_config;
    if (is_whole_class) name = read_class(whole);
    if (!name) return name.error();
    out.config.model_class = *name;
    auto const labels = read_labels(object);
    if (!labels) return labels.error();
    out.config.labels = *labels;
    if (part.is_text_config) {
        // The head is the whole model's: version 5 asks the whole, whose part may say otherwise; version 4 asks the part first.
        auto const tied = whole.find_set("tie_word_embeddings");
        auto const version = whole.find_set("transformers_version");
        bool const asks_whole = version && version->string() && version->string()->starts_with("5.");
        if (tied && (asks_whole || !object.find_set("tie_word_embeddings"))) {
            auto const flag = whole.flag("tie_word_embeddings", *tied);
            if (!flag) return flag.error();
            out.config.tie_word_embeddings = *flag;
        }
    }
    if (part.is_text_config || part.is_flat) {
        out.config.is_text_part = true;
        out.warnings.push_back(escaped(whole.file()) + ": only the text model" +
                               (part.is_flat ? "" : " (text_config)") + " is counted");
    }
    if (whole.find_set("auto_map")) {
        out.warnings.push_back(escaped(whole.file()) + ": auto_map names code of the repository; it is never executed");
    }
    warn_of_unread_keys(object, common_unread_keys, out.warnings);
    warn_of_unread_keys(object, family.unread_keys, out.warnings);
    auto model = describe_config(family, out, whole.file());
    if (!model && model.error().code() == ErrorCode::unsupported && is_whole_class) {
        // The class wraps the text model with other inputs; the text model is counted as its own usual class.
        out.config.model_class = {};
        model = describe_config(family, out, whole.file());
    }
    if (!model) return model.error();
    return DescribedConfig{std::move(out), *std::move(model)};
}

/// Reads a config.json and describes its model, once.
///
/// Errors  as read_config
[[nodiscard]] inline Result<DescribedConfig> read_described_config(FileFamilies families, JsonDocument const& document,
                                                                   std::string_view file) {
    if (!document.root().is_object()) {
        return Error{ErrorCode::malformed_file}.in(file).because("a configuration is a JSON object");
    }
    ConfigObject const whole(document.root(), file, "");
    if (auto const checked = check_task(whole); !checked) return checked.error();
    auto const part = find_part(families, whole);
    if (!part) return part.error();
    auto result = read_family(whole, *part);
    // It may be why the rest does not go together.
    if (auto const clear = document.check_repeats(); !clear) return Error{clear.error()}.in(file);
    if (!result) return result;
    if (auto const note = document.repeats_note(); !note.empty())
        result->file.warnings.push_back(escaped(file) + ": " + note);
    return result;
}

}  // namespace detail

/// Reads the text of a config.json into the configuration of its family, fields that are absent with transformers
/// 4.57's defaults.
///
/// Both dialects: `torch_dtype` or `dtype`; `rope_theta` with `rope_scaling`, or `rope_parameters`. Nothing that the
/// file names is executed. `file` stands in errors and warnings.
///
/// Errors  malformed_file; unknown_name for a model_type, with the closest and all known; missing_field, invalid_field,
///         size_overflow, capacity_exceeded, unsupported, which name the field
[[nodiscard]] inline Result<ConfigFile> read_config(FileFamilies families, JsonDocument const& document,
                                                    std::string_view file) {
    auto read = detail::read_described_config(families, document, file);
    if (!read) return read.error();
    return std::move(read->file);
}

/// The same for the text itself.
///
/// Errors  as read_config; malformed_file for what is no JSON
[[nodiscard]] inline Result<ConfigFile> read_config(FileFamilies families, std::string_view text,
                                                    std::string_view file) {
    auto const document = parse_json(text, {.values = max_config_values, .may_repeat_keys = true});
    if (document) return read_config(families, *document, file);
    auto error = document.error();
    return error.in(file);
}

/// Reads an open config.json.
///
/// Errors  as read_config; file_unreadable
[[nodiscard]] inline Result<ConfigFile> read_config_file(FileFamilies families, RegularFile const& file) {
    auto const text = read_text_file(file, max_config_file);
    if (!text) return text.error();
    return read_config(families, *text, file.path());
}

/// The same for the families of a list.
template <class List = Architectures>
[[nodiscard]] Result<ConfigFile> read_config(JsonDocument const& document, std::string_view file) {
    return read_config(file_families<List>(), document, file);
}
template <class List = Architectures>
[[nodiscard]] Result<ConfigFile> read_config(std::string_view text, std::string_view file) {
    return read_config(file_families<List>(), text, file);
}
template <class List = Architectures>
[[nodiscard]] Result<ConfigFile> read_config_file(RegularFile const& file) {
    return read_config_file(file_families<List>(), file);
}

/// Reads a config.json.
///
/// Errors  as read_config; file_not_found, file_unreadable
template <class List = Architectures>
[[nodiscard]] Result<ConfigFile> read_config_file(std::string const& path) {
    auto const file = RegularFile::open(path);
    if (!file) return file.error();
    return read_config_file<List>(*file);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
