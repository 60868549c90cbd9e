// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/device_key.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/placement/placement.hpp>
#include <shardwise/placement/unit.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What becomes of layers that a placement puts on the cpu: their weights are fetched to the stage of the layer before them, or they are
/// computed there, by stages of their own.
enum class CpuLayers : std::uint8_t { stream, compute };

/// What a placement makes of a run: one stage for each device, in the order of the layers.
struct PlacedStages {
    /// Each stage's first layer and, last, the number of layers.
    std::vector<std::int64_t> begins;
    /// Each stage's device; the cpu where no accelerator holds anything.
    std::vector<DeviceId> devices;
    /// By layer. The stage of those on the cpu or on disk is that of the layer before them.
    std::vector<LayerHome> homes;

    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(devices.size()); }
};

/// The stages of a placed model. Layers stay whole and run in order: those of a device follow one another, what stands
/// before the first layer is on the first stage's device or on one of its own, and so is what stands after the last;
/// or it is on cpu or disk. Where the cpu computes, a device may have a stage before its layers and one after, and what stands beside
/// a stage of the cpu is computed there. Layers on disk are fetched in any case; where no device has a layer, to the one that holds
/// what stands beside them.
///
/// Errors  unsupported for a placement that is no pipeline, with the unit and where it could be
[[nodiscard]] inline Result<PlacedStages> stages_of_placement(ModuleSequence const& modules, Budgets const& budgets,
                                                              Placement const& placement,
                                                              CpuLayers cpu_layers = CpuLayers::stream) {
    auto const computes = [&](DeviceId id) {
        return id.is_accelerator() || (cpu_layers == CpuLayers::compute && id.kind == DeviceClass::cpu);
    };
    auto const refuse = [](std::string_view path, std::string const& reason, std::string const& fix) {
        return Error{ErrorCode::unsupported}.in("device map").at(path).because(reason).fix(fix);
    };
    PlacedStages out;
    std::int64_t layers = 0;
    /// Units that are no layers, and how many layers are before them.
    std::vector<std::pair<std::size_t, std::int64_t>> beside;
    bool is_resident = true;
    DeviceId last{};
    for (std::size_t i = 0; i < modules.units.size(); ++i) {
        auto const& unit = modules.units[i];
        auto const id = budgets[static_cast<std::size_t>(placement.device_of[i])].id;
        if (unit.role != ModuleRole::layer || unit.layer.value() < 0) {
            beside.emplace_back(i, layers);
            continue;
        }
        if (unit.layer.value() < layers) {
            if (id == last) continue;
            return refuse(unit.path, "is on another device than the rest of its layer", "map each layer whole");
        }
        last = id;
        is_resident = computes(id);
        out.homes.push_back(is_resident                    ? LayerHome::resident
                            : id.kind == DeviceClass::disk ? LayerHome::disk
                                                           : LayerHome::cpu);
        if (is_resident && (out.devices.empty() || !(out.devices.back() == id))) {
            for (auto const& before : out.devices) {
                // The processor may have several stages, and a device one before and one after.
                if (before == id && cpu_layers == CpuLayers::stream)
                    return refuse(unit.path, "is on a device whose other layers run before those of another",
                                  "map the layers of a device one after another");
            }
            // Layers off the devices before the first one on any belong to its stage.
            out.begins.push_back(out.devices.empty() ? 0 : layers);
            out.devices.push_back(id);
        }
        ++layers;
    }
    if (out.devices.empty()) {
        out.begins = {0};
        out.devices = {DeviceId{DeviceClass::cpu, 0}};
        for (auto const& one : beside) {
            auto const id = budgets[static_cast<std::size_t>(placement.device_of[one.first])].id;
            if (!id.is_accelerator()) continue;
            out.devices = {id};
            break;
        }
    }
    out.begins.push_back(layers);
    for (auto const& one : beside) {
        auto const& unit = modules.units[one.first];
        auto const id = budgets[static_cast<std::size_t>(placement.device_of[one.first])].id;
        bool const is_before = one.second == 0;
        bool const is_between = !is_before && one.second < layers;
        // What stands between two stacks is computed with the layer before it.
        auto const after = std::upper_bound(out.begins.begin(), out.begins.end() - 1, one.second - 1);
        auto const stage = is_between  ? out.devices[static_cast<std::size_t>(after - out.begins.begin()) - 1]
                           : is_before ? out.devices.front()
                                       : out.devices.back();
        if (!id.is_accelerator() || id == stage || !stage.is_accelerator()) continue;
        bool const is_new = std::find(out.devices.begin(), out.devices.end(), id) == out.devices.end();
        // A stage of its own, without layers; one at either end.
        if (is_new && is_before && out.begins[1] > 0) {
            out.devices.insert(out.devices.begin(), id);
            out.begins.insert(out.begins.begin(), 0);
            continue;
        }
        if (is_new && !is_before && !is_between && out.begins[out.begins.size() - 2] < layers) {
            out.devices.push_back(id);
            out.begins.push_back(layers);
            continue;
        }
        return refuse(unit.path, "runs beside layers of " + name_of_device(stage) + " and is on " + name_of_device(id),
                      "map it to " + name_of_device(stage));
    }
    return out;
}

/// What each accelerator takes of a run, by budget, where `ranks` is what each of its ranks takes, `per_stage` of a stage, in the stages'
/// order and as often as there are groups of experts. Where all layers are fetched the first one computes.
[[nodiscard]] inline List<Bytes> needs_of_stages(Budgets const& budgets, PlacedStages const& stages,
                                                 std::vector<Bytes> const& ranks, std::int32_t per_stage,
                                                 CpuLayers cpu_layers) {
    List<Bytes> needs(budgets.size());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        auto const stage = rank / static_cast<std::size_t>(per_stage) % stages.devices.size();
        auto const id = stages.devices[stage];
        bool const is_first = id.kind == DeviceClass::cpu && cpu_layers == CpuLayers::stream;
        for (std::size_t i = 0; i < budgets.size(); ++i) {
            if (!budgets[i].is_accelerator() || !(is_first ? i == 0 : budgets[i].id == id)) continue;
            needs[i] += ranks[rank];
        }
    }
    return needs;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
