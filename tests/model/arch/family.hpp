// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/architecture.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/op/attention.hpp>
#include <shardwise/op/work.hpp>

#include <cstdint>
#include <string>
#include <string_view>

/// What the tests of single families share: models from a family's defaults, small changes to them, what is refused.
namespace family {

/// A config as the reader leaves it for a file that says nothing, then changed.
template <class Arch, class Change>
constexpr shardwise::ModelConfig config_of(Change change) {
    shardwise::ModelConfig config;
    for (auto const& field : Arch::fields) field.store_default(config);
    change(config);
    return config;
}

/// The model of a changed default config.
template <class Arch, class Change>
constexpr shardwise::Model made(Change change) {
    return shardwise::describe<Arch>(config_of<Arch>(change)).value();
}

/// Its number of parameters.
template <class Arch, class Change>
constexpr std::int64_t parameters(Change change) {
    return shardwise::count_parameters(made<Arch>(change).tree);
}

/// The code and the place of what a changed default config is refused for: "invalid_field n_head"; "accepted" where it
/// is not.
template <class Arch, class Change>
std::string refusal(Change change) {
    auto const model = shardwise::describe<Arch>(config_of<Arch>(change));
    if (model.has_value()) return "accepted";
    return std::string(name_of(model.error().code())) + " " + std::string(model.error().place());
}

/// Elements that one token takes in the caches of all layers.
constexpr std::int64_t cached_per_token(shardwise::Model const& model, bool is_latent_cached = true) {
    std::int64_t total = 0;
    for (auto const& block : model.program.blocks()) {
        for (auto const& op : model.program.body(block).operations()) {
            auto const kept = shardwise::kept_heads(op, is_latent_cached);
            total += block.count * kept.heads(1, 0) * (kept.key + kept.value);
        }
    }
    return total;
}

/// The first operation of a kind in the whole program; null where there is none.
constexpr shardwise::Operation const* find_operation(shardwise::Model const& model, shardwise::OpKind kind) {
    for (auto const& body : model.program.bodies()) {
        for (auto const& op : body.operations()) {
            if (op.kind == kind) return &op;
        }
    }
    return nullptr;
}

/// Leaves a config as it is.
inline constexpr auto unchanged = [](shardwise::ModelConfig&) {};

}  // namespace family
