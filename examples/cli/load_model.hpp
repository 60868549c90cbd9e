// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/observer.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>

#include <optional>
#include <string>
#include <vector>

namespace shardwise::cli {

/// What a MODEL turned out to be.
struct LoadedModel {
    Model model;
    /// Preset, "org/name", or the last part of the path.
    std::string name;
    /// Where it is: an absolute path or "org/name"; "" for presets and for what came by standard input.
    std::string source;
    /// Why no family describes a checkpoint: a tree without a program, of which only the weights are known.
    std::optional<Error> not_described;
    /// True where the sizes are those of the files.
    bool has_stored_sizes = false;
    std::vector<std::string> warnings;
    /// Nothing for a preset.
    std::optional<OpenCheckpoint> files;

    [[nodiscard]] bool has_program() const { return !not_described; }
    /// The class that is counted, else the family.
    [[nodiscard]] std::string architecture() const {
        auto const name_of_class = model.config.model_class.view();
        return std::string(name_of_class.empty() ? model.config.model_type.view() : name_of_class);
    }
};

/// Finds and reads a MODEL: a preset, a file, a folder, or a repository in the Hugging Face cache. `observer` hears of each file.
///
/// Errors  unknown_name with the closest name; what the readers refuse, with file and field
[[nodiscard]] Result<LoadedModel> load_model(std::string const& model, Observer const& observer = {});

/// The same for what needs more than weights.
///
/// Errors  the same; why no family describes the model
[[nodiscard]] Result<LoadedModel> load_known_model(std::string const& model, Observer const& observer = {});

/// The same for what is computed with: it has `files`, and they have weights.
///
/// Errors  the same; invalid_argument for a preset or a config without weights
[[nodiscard]] Result<LoadedModel> load_runnable_model(std::string const& model);

}  // namespace shardwise::cli
