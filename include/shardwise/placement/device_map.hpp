// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/memory/overhead.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/placement/map_entries.hpp>
#include <shardwise/placement/model_sequence.hpp>
#include <shardwise/placement/shortfall.hpp>
#include <shardwise/placement/strategy.hpp>

#include <optional>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one device holds in a plan.
struct DeviceUse {
    DeviceId id{};
    Bytes capacity{};
    Bytes used{};
    Bytes weights{};
    Bytes kv_cache{};
    Bytes activations{};
    Bytes overhead{};
};

/// A finished device map with what proves it, or the reason why there is none.
struct MapPlan {
    bool fits = false;
    List<MapEntry> device_map;
    List<DeviceUse> devices;
    Optional<Certificate> certificate;
    Optional<Shortfall> shortfall;
    /// Why it does not fit, where it does not.
    std::optional<Error> reason;
};

/// The budgets of devices for a model: whole memories, the runtime's overhead, rates for the model's activations.
[[nodiscard]] constexpr Budgets budgets_for(Span<Device const> devices, Model const& model, EstimateRequest const& request) {
    auto budgets = budgets_of(devices, activation_dtype_of(as_published(request, model.config), model.config));
    for (auto& budget : budgets) budget.overhead = runtime_overhead(budget.id.kind);
    return budgets;
}

/// What each device holds under a placement, term by term.
[[nodiscard]] constexpr List<DeviceUse> describe_use(ModuleSequence const& modules, Budgets const& budgets,
                                                            Placement const& placement) {
    auto const used = used_bytes(modules, budgets, placement);
    List<DeviceUse> devices;
    for (std::size_t i = 0; i < budgets.size(); ++i) {
        DeviceUse use;
        use.id = budgets[i].id;
        use.capacity = budgets[i].capacity;
        use.used = used[i];
        devices.push_back(use);
    }
    for (std::size_t unit = 0; unit < modules.units.size(); ++unit) {
        auto& use = devices[static_cast<std::size_t>(placement.device_of[unit])];
        use.weights += modules.units[unit].weights;
        use.kv_cache += modules.units[unit].state;
        if (use.id.kind == DeviceClass::disk) continue;
        if (modules.units[unit].workspace > use.activations) use.activations = modules.units[unit].workspace;
    }
    for (auto& use : devices) use.overhead = use.used - use.weights - use.kv_cache - use.activations;
    return devices;
}

/// Places models on devices by a strategy.
///
/// Example  DeviceMap<Optimal>{}.plan(model, presets::four_a100_40gb, {.context = 8192})
template <PlacementStrategy Strategy>
class DeviceMap {
public:
    constexpr explicit DeviceMap(Strategy strategy = {}) : strategy_(std::move(strategy)) {}

    /// Which budget holds each unit.
    [[nodiscard]] constexpr Result<Placement> place(ModuleSequence const& modules, Budgets const& budgets) const {
        return strategy_(modules, budgets);
    }

    /// The whole answer for units and budgets. Not fitting is an answer: `fits` is false, `shortfall` and `reason` say why.
    ///
    /// Errors  what the strategy refuses for other reasons than memory
    [[nodiscard]] Result<MapPlan> plan(ModuleSequence const& modules, Budgets const& budgets) const {
        MapPlan plan;
        auto const placement = place(modules, budgets);
        if (!placement) {
            if (placement.error().code() != ErrorCode::out_of_memory) return placement.error();
            plan.reason = placement.error();
            plan.shortfall = find_shortfall(modules, budgets);
            for (auto const& budget : budgets) {
                plan.devices.push_back({});
                plan.devices.back().id = budget.id;
                plan.devices.back().capacity = budget.capacity;
            }
            return plan;
        }
        plan.fits = true;
        plan.device_map = map_entries(modules, budgets, *placement);
        plan.devices = describe_use(modules, budgets, *placement);
        plan.certificate = placement->certificate;
        for (auto const& use : plan.devices) {
            if (use.used <= use.capacity) continue;
            // Only a map that somebody wrote by hand can overfill a device.
            plan.fits = false;
            Shortfall const over{use.id, use.used - use.capacity};
            if (!plan.shortfall || plan.shortfall->missing < over.missing) plan.shortfall = over;
        }
        return plan;
    }

    /// The whole answer for a model on devices, with the request's cache, activations and the runtime's overhead.
    [[nodiscard]] Result<MapPlan> plan(Model const& model, Span<Device const> devices,
                                       EstimateRequest const& request = {}) const {
        return plan(build_sequence(model, request), budgets_for(devices, model, request));
    }

private:
    Strategy strategy_;
};

/// True where the strategy finds a place for every part of the model on the devices; usable in static_assert.
///
/// Example  static_assert(fits<Sequential>(presets::llama_3_70b, presets::four_a100_40gb, {.context = 8192}))
template <PlacementStrategy Strategy, class List = Architectures>
[[nodiscard]] constexpr bool fits(ModelConfig const& config, Span<Device const> devices,
                                  EstimateRequest const& request = {}) {
    auto const model = describe<List>(config);
    if (!model) return false;
    return DeviceMap<Strategy>{}.place(build_sequence(*model, request), budgets_for(devices, *model, request)).has_value();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
