// SPDX-License-Identifier: Apache-2.0
#include "load_model.hpp"

#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/presets.hpp>

#include "demo_model.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<LoadedModel> load_preset(ModelPreset const& preset) {
    auto described = describe(*preset.config);
    if (!described) return described.error();
    return LoadedModel{.model = *std::move(described),
                       .name = std::string(preset.name),
                       .source = {},
                       .not_described = {},
                       .warnings = {},
                       .files = {}};
}

/// How another program started elsewhere finds the MODEL; what is no path here stays as it is.
[[nodiscard]] std::string place_of(std::string const& model) {
    // A device or a pipe of this process is nothing to another one.
    if (is_stream(model) || model.starts_with("/dev/")) return {};
    if (model.front() == '/' || ::access(model.c_str(), F_OK) != 0) return model;
    char* const folder = ::getcwd(nullptr, 0);
    auto const place = folder == nullptr ? model : std::string(folder) + "/" + model;
    std::free(folder);
    return place;
}

[[nodiscard]] std::vector<std::string_view> preset_names() {
    std::vector<std::string_view> names;
    for (auto const& preset : model_presets) {
        names.push_back(preset.name);
        for (auto const alias : preset.aliases) {
            if (!alias.empty()) names.push_back(alias);
        }
    }
    return names;
}

/// What the files of a model describe.
[[nodiscard]] Result<LoadedModel> load_files(ModelSource source, Observer const& observer) {
    OpenCheckpoint files(std::move(source));
    auto checkpoint = read_checkpoint(files, observer);
    if (!checkpoint) return checkpoint.error();
    auto name = files.source().name;
    return LoadedModel{.model = std::move(checkpoint->model),
                       .name = std::move(name),
                       .source = {},
                       .not_described = std::move(checkpoint->not_described),
                       .has_stored_sizes = checkpoint->has_stored_sizes,
                       .warnings = std::move(checkpoint->warnings),
                       .files = std::move(files)};
}

/// Whether files are those of an adapter alone, as PEFT and `train --lora` write them.
[[nodiscard]] bool is_adapter(ModelSource const& source) {
    auto const& weights = source.weights;
    return source.config.empty() && std::any_of(weights.begin(), weights.end(), [](auto const& name) {
               return name.ends_with("adapter_model.safetensors");
           });
}

/// The same, where a family describes it.
[[nodiscard]] Result<LoadedModel> known(Result<LoadedModel> loaded) {
    if (!loaded || loaded->has_program()) return loaded;
    if (loaded->files && is_adapter(loaded->files->source()))
        return loaded->not_described->because("is an adapter, without the model that it changes")
            .at({})
            .fix("name that model, and the adapter's folder after --adapter; train --merge writes both as one model");
    return loaded->not_described->fix("use shardwise map, which places any checkpoint");
}

/// The files of a model that have weights.
[[nodiscard]] Result<ModelSource> find_files(std::string const& name) {
    // Nothing is read from it, nor waited for.
    if (is_stream(name)) {
        return Error{ErrorCode::invalid_argument}
            .in(stream_name(name))
            .because("gives a config.json, which has no weights to run")
            .fix("name a folder with safetensors beside config.json, or a .gguf file");
    }
    auto const place = place_of_model(name);
    if (!place) return place.error();
    auto source = find_model(*place, {}, HubCache(HubEnvironment::current()));
    if (!source) {
        if (source.error().code() != ErrorCode::unknown_name || find_preset(name) == nullptr) return source.error();
        return Error{ErrorCode::invalid_argument}
            .in(name)
            .because("is a preset: there are no weights to run")
            .fix("name a folder, a .gguf file, or org/name in the Hugging Face cache");
    }
    if (source->kind == SourceKind::config || source->kind == SourceKind::preset) {
        return Error{ErrorCode::invalid_argument}
            .in(name)
            .because("has no weights to run")
            .fix("name a folder with safetensors beside config.json, or a .gguf file");
    }
    return source;
}

}  // namespace

Result<LoadedModel> load_model(std::string const& model, Observer const& observer) {
    auto const names = preset_names();
    auto const place = place_of_model(model);
    if (!place) return place.error();
    auto source = find_model(*place, names, HubCache(HubEnvironment::current()));
    bool const is_preset = source && source->kind == SourceKind::preset;
    bool const is_unknown = !source && source.error().code() == ErrorCode::unknown_name;
    if (is_preset || is_unknown) {
        // Presets also go by other spellings; a file of that name would have come first.
        if (auto const* preset = find_preset(is_preset ? source->name : model)) return load_preset(*preset);
    }
    if (!source) return source.error();
    auto loaded = load_files(*std::move(source), observer);
    if (loaded) loaded->source = place_of(*place);
    return loaded;
}

Result<LoadedModel> load_known_model(std::string const& model, Observer const& observer) {
    return known(load_model(model, observer));
}

Result<LoadedModel> load_runnable_model(std::string const& model) {
    auto source = find_files(model);
    if (!source) return source.error();
    return known(load_files(*std::move(source), {}));
}

}  // namespace shardwise::cli
