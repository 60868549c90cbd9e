// SPDX-License-Identifier: Apache-2.0
#include "load_model.hpp"

#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/presets.hpp>

#include <string_view>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<LoadedModel> load_preset(ModelPreset const& preset) {
    auto described = describe(*preset.config);
    if (!described) return described.error();
    return LoadedModel{.model = *std::move(described),
                       .name = std::string(preset.name),
                       .not_described = {},
                       .warnings = {}};
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

}  // namespace

Result<LoadedModel> load_model(std::string const& model, Observer const& observer) {
    auto const names = preset_names();
    auto const source = find_model(model, names, HubCache(HubEnvironment::current()));
    bool const is_preset = source && source->kind == SourceKind::preset;
    bool const is_unknown = !source && source.error().code() == ErrorCode::unknown_name;
    if (is_preset || is_unknown) {
        // Presets also go by other spellings; a file of that name would have come first.
        if (auto const* preset = find_preset(is_preset ? source->name : model)) return load_preset(*preset);
    }
    if (!source) return source.error();
    auto checkpoint = read_checkpoint(*source, observer);
    if (!checkpoint) return checkpoint.error();
    LoadedModel loaded{.model = std::move(checkpoint->model),
                       .name = source->name,
                       .not_described = checkpoint->not_described,
                       .has_stored_sizes = checkpoint->has_stored_sizes,
                       .warnings = std::move(checkpoint->warnings)};
    return loaded;
}

Result<LoadedModel> load_known_model(std::string const& model, Observer const& observer) {
    auto loaded = load_model(model, observer);
    if (!loaded || loaded->has_program()) return loaded;
    return loaded->not_described->fix("use shardwise map, which places any checkpoint");
}

}  // namespace shardwise::cli
