// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/memory/check_model_request.hpp>
#include <shardwise/memory/overhead.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/placement/check_placement.hpp>
#include <shardwise/placement/detail/stop_compilation.hpp>
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
    /// Which budget holds each unit; empty where the strategy found no place for all.
    Placement placement;
    List<MapEntry> device_map;
    List<DeviceUse> devices;
    Optional<Certificate> certificate;
    Optional<Shortfall> shortfall;
    /// Why it does not fit, where it does not.
    std::optional<Error> reason;
};

/// The budgets of devices for a model: whole memories, the runtime's overhead, rates for the model's activations.
[[nodiscard]] constexpr Budgets budgets_for(Span<Device const> devices, Model const& model, EstimateRequest const& request) {
    auto budgets = budgets_of(devices, activation_dtype_of(as_published(request, model.config), model.config), {},
                              request.utilization);
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

    /// Which budget holds each unit. The devices may be overfilled: that is left to plan and check_fit.
    ///
    /// Errors  what the strategy refuses; as check_placement
    [[nodiscard]] constexpr Result<Placement> place(ModuleSequence const& modules, Budgets const& budgets) const {
        auto placement = strategy_(modules, budgets);
        if (!placement) return placement;
        if (auto const checked = check_placement(strategy_.name, modules, budgets, *placement); !checked)
            return checked.error();
        return placement;
    }

    /// The whole answer for units and budgets. Not fitting is an answer: `fits` is false, `shortfall` and `reason` say why.
    ///
    /// Errors  what the strategy refuses for other reasons than memory; as check_placement
    [[nodiscard]] Result<MapPlan> plan(ModuleSequence const& modules, Budgets const& budgets) const {
        MapPlan plan;
        auto placement = place(modules, budgets);
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
        if (auto const full = find_overfull(budgets, used_bytes(modules, budgets, *placement))) {
            // Only a strategy that does not look at capacities overfills a device, such as a map that somebody wrote by hand.
            auto const& use = plan.devices[*full];
            plan.fits = false;
            plan.shortfall = Shortfall{use.id, use.used - use.capacity};
            plan.reason = overfull_error(strategy_.name, modules, budgets, *placement, *full);
        }
        plan.placement = *std::move(placement);
        return plan;
    }

    /// The whole answer for a model on devices, with the request's cache, activations and the runtime's overhead.
    ///
    /// Errors  as check_request; what the strategy refuses for other reasons than memory; as check_placement
    [[nodiscard]] Result<MapPlan> plan(Model const& model, Span<Device const> devices,
                                       EstimateRequest const& request = {}) const {
        if (auto const checked = check_request(model, request); !checked) return checked.error();
        return plan(build_sequence(model, request), budgets_for(devices, model, request));
    }

    /// True where the strategy finds a place for every unit that no device is too small for.
    ///
    /// Errors  what the strategy refuses for other reasons than memory; as check_placement
    [[nodiscard]] constexpr Result<bool> fits(ModuleSequence const& modules, Budgets const& budgets) const {
        auto const placement = place(modules, budgets);
        if (placement) return !find_overfull(budgets, used_bytes(modules, budgets, *placement));
        if (placement.error().code() == ErrorCode::out_of_memory) return false;
        return placement.error();
    }

private:
    Strategy strategy_;
};

/// True where the strategy finds a place for every part of the model on the devices; false where memory is short. `List` are the
/// families that are known.
///
/// Errors   as describe and check_request; what the strategy refuses for other reasons than memory; as check_placement
/// Example  check_fit<Balanced>(config, devices, {.context = 8192}).value_or(false)
template <PlacementStrategy Strategy, class List = Architectures>
[[nodiscard]] constexpr Result<bool> check_fit(ModelConfig const& config, Span<Device const> devices,
                                               EstimateRequest const& request = {}) {
    auto const model = describe<List>(config);
    if (!model) return model.error();
    if (auto const checked = check_request(*model, request); !checked) return checked.error();
    return DeviceMap<Strategy>{}.fits(build_sequence(*model, request), budgets_for(devices, *model, request));
}

/// The same for static_assert: what does not fit is false, and an error stops the compilation in a function that says which.
///
/// Example  static_assert(fits<Sequential>(presets::llama_3_70b, presets::four_a100_40gb, {.context = 8192}))
template <PlacementStrategy Strategy, class List = Architectures>
[[nodiscard]] consteval bool fits(ModelConfig const& config, Span<Device const> devices,
                                  EstimateRequest const& request = {}) {
    auto const answer = check_fit<Strategy, List>(config, devices, request);
    // check_placement alone names the strategy as what is at fault.
    bool const is_placement = !answer && answer.error().code() == ErrorCode::invalid_argument && !answer.error().subject().empty();
    if (is_placement) detail::strategy_gives_no_legal_placement();
    if (!answer) detail::stop_compilation(answer.error().code());
    return *answer;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
