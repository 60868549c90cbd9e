// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/ids.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/model/module_tree.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A part of a model that is never split over devices: a leaf module, an instance of a no-split class, or a tensor that a
/// split module owns itself.
///
/// Units  work in flops, traffic and output in bytes per step
struct PlacementUnit {
    /// The full name of the module or tensor.
    std::string_view path;
    ModuleRole role = ModuleRole::none;
    /// The repeated layer that it is; invalid elsewhere.
    LayerId layer;
    /// Parameters and buffers as they are stored in memory.
    Bytes weights{};
    /// What grows with the context: the key-value cache.
    Bytes state{};
    /// What it needs while it runs and gives back: a device holds the largest of its units' workspaces, not their sum.
    Bytes workspace{};
    double flops = 0.0;
    double traffic = 0.0;
    /// What it hands to the unit after it.
    double output = 0.0;
    /// A tensor that a split module owns itself, not a module.
    bool is_tensor = false;
    /// Its measured seconds on each kind of device, by Budget::measured_as; empty: flops and traffic say how long it takes.
    List<double> measured;

    /// What it adds to its device for good.
    [[nodiscard]] constexpr Bytes resident() const { return weights + state; }
};

/// A name whose tensor is tied to one that an earlier unit holds: it lives there and takes nothing.
struct TiedName {
    std::string_view path;
    std::int32_t unit = 0;
    /// The name is of a tensor that was a unit.
    bool is_tensor = false;
};

/// What a strategy places: the model's units in registration order. Names live in its own arena.
struct ModuleSequence {
    List<PlacementUnit> units;
    List<TiedName> tied;
    NameArena names;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
