// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "formula.hpp"
#include "temporary_folder.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace shardwise::testing {

/// A model on disk whose weights are a formula, as its files describe it.
struct FormulaModel {
    TemporaryFolder folder;
    ModelSource source;
    std::optional<Checkpoint> checkpoint;

    explicit FormulaModel(std::string const& config, std::uint64_t seed = 0) {
        (void)folder.write("config.json", config);
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto const described = read_checkpoint(*only);
        REQUIRE_MESSAGE(described, (described ? "" : described.error().message()));
        write_formula_model(described->model, folder / "model.safetensors", seed);
        auto found = find_model(folder.path(), {}, HubCache(HubEnvironment{}));
        REQUIRE(found);
        source = *found;
        auto read = read_checkpoint(source);
        REQUIRE_MESSAGE(read, (read ? "" : read.error().message()));
        checkpoint.emplace(std::move(*read));
    }
};

}  // namespace shardwise::testing
