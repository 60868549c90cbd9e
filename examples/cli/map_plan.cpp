// SPDX-License-Identifier: Apache-2.0
#include "map_plan.hpp"

#include <shardwise/placement/balanced.hpp>
#include <shardwise/placement/custom.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/fixes.hpp>
#include <shardwise/placement/inverse.hpp>
#include <shardwise/placement/optimal.hpp>
#include <shardwise/placement/place_by_need.hpp>
#include <shardwise/placement/sequential.hpp>

#include "map_profile.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardwise::cli {

namespace {

/// The best of all contiguous placements, as the bound for what another strategy found.
void certify(ModuleSequence const& modules, Budgets const& budgets, Objective objective, MapPlan& plan) {
    auto const best = Optimal{.objective = objective}(modules, budgets);
    if (!best || !best->certificate) return;
    Certificate certificate{objective, Optimal::objective_value(objective, modules, budgets, plan.placement),
                            best->certificate->lower_bound};
    certificate.lower_bound = std::min(certificate.lower_bound, certificate.value);
    plan.certificate = certificate;
}

template <PlacementStrategy Strategy>
[[nodiscard]] Result<MapPlan> plan_by(Strategy strategy, ModuleSequence const& modules, Budgets const& budgets,
                                      Objective objective) {
    auto plan = DeviceMap<Strategy>(std::move(strategy)).plan(modules, budgets);
    if (plan && plan->fits && !plan->certificate) certify(modules, budgets, objective, *plan);
    return plan;
}

[[nodiscard]] Result<MapPlan> plan_by_request(ModuleSequence const& modules, Budgets const& budgets,
                                              MapRequest const& request, List<MapEntry> const& custom) {
    switch (request.strategy) {
        case MapStrategy::optimal:
            return plan_by(Optimal{.objective = request.objective}, modules, budgets, request.objective);
        case MapStrategy::balanced:
            return plan_by(Balanced{}, modules, budgets, request.objective);
        case MapStrategy::balanced_low_0:
            return plan_by(BalancedLow0{}, modules, budgets, request.objective);
        case MapStrategy::sequential:
            return plan_by(Sequential{}, modules, budgets, request.objective);
        case MapStrategy::custom:
            return DeviceMap<Custom>{Custom{.entries = custom}}.plan(modules, budgets);
    }
    return Error{ErrorCode::unsupported};
}

[[nodiscard]] Result<MapPlan> plan_by_need(ModuleSequence const& modules, Budgets const& budgets,
                                           MapRequest const& request, List<MapEntry> const& custom,
                                           NeedOfRun const& need) {
    auto plan = plan_by_request(modules, budgets, request, custom);
    if (!plan || !plan->fits || !need) return plan;
    auto const place = [&](Budgets const& offered) -> Result<Placement> {
        plan = plan_by_request(modules, offered, request, custom);
        if (!plan) return plan.error();
        if (!plan->fits) return plan->reason.value_or(Error{ErrorCode::out_of_memory});
        return plan->placement;
    };
    auto const placement =
        place_by_need(modules, budgets, place, [&](Placement const& found) { return need(modules, budgets, found); });
    if (!placement) return placement.error();
    return plan;
}

/// Gives blocks the workspace that they have with activations of another element type.
void set_activations(PlacementTask const& task, EstimateRequest request, Dtype activations, Granularity granularity,
                     ModuleSequence& modules) {
    // Of the cache's element type, which was asked for, it says nothing.
    request.dtype = activations;
    request.quant = {};
    auto const other = task.sequence(request, granularity);
    for (std::size_t i = 0; i < modules.units.size(); ++i) modules.units[i].workspace = other.units[i].workspace;
}

/// What the devices hold when they are filled up to the unit that finds no room.
[[nodiscard]] List<DeviceUse> partial_use(ModuleSequence const& modules, Budgets const& budgets) {
    auto const filling =
        detail::fill_in_order(modules.units, 0, modules.units.size(), budgets, detail::capacities_of(budgets));
    ModuleSequence placed;
    placed.units.assign(modules.units.begin(), modules.units.begin() + static_cast<std::ptrdiff_t>(filling.placed));
    return describe_use(placed, budgets, detail::to_placement(filling, filling.placed));
}

/// The devices before the last kind, and one of the last kind.
struct LastKind {
    List<Device> others;
    Device device;
};

[[nodiscard]] Result<LastKind> split_last_kind(List<Device> const& devices) {
    std::size_t end = 0;
    while (end < devices.size() && devices[end].id.kind == DeviceClass::gpu) ++end;
    if (end == 0)
        return Error{ErrorCode::invalid_argument}
            .in("--max devices")
            .because("there is no GPU to count")
            .fix("name one: --devices 1xA100-40GB");
    LastKind out{.others = devices, .device = devices[end - 1]};
    auto first = end;
    while (first > 0 && devices[first - 1].name == out.device.name &&
           devices[first - 1].available() == out.device.available())
        --first;
    out.others.erase(out.others.begin() + static_cast<std::ptrdiff_t>(first),
                     out.others.begin() + static_cast<std::ptrdiff_t>(end));
    return out;
}

[[nodiscard]] List<Device> with_count(LastKind const& kind, std::int64_t count) {
    auto devices = kind.others;
    auto place = devices.begin();
    while (place != devices.end() && place->id.kind == DeviceClass::gpu) ++place;
    auto added = kind.device;
    added.id.index = place == devices.begin() ? -1 : std::prev(place)->id.index;
    for (std::int64_t k = 0; k < count; ++k) {
        ++added.id.index;
        place = std::next(devices.insert(place, added));
    }
    return devices;
}

/// Answers --max by changing the request to what was found; false where nothing fits.
[[nodiscard]] Result<bool> answer_inverse(PlacementTask const& task, MapRequest& request, MapAnswer& answer) {
    auto& estimate = request.estimate;
    // What was asked for is legal; of what is tried instead, nothing fits that is not.
    auto const fits_on = [&](List<Device> const& devices) { return task.fits(devices, estimate).value_or(false); };
    switch (request.inverse) {
        case Inverse::none:
            return true;
        case Inverse::context:
        case Inverse::batch: {
            auto& field = request.inverse == Inverse::context ? estimate.context : estimate.batch;
            auto const found = largest_that([&](std::int64_t value) {
                field = value;
                return fits_on(request.devices);
            });
            field = std::max<std::int64_t>(found, 1);
            if (found > 0) answer.number = found;
            return found > 0;
        }
        case Inverse::devices: {
            auto const kind = split_last_kind(request.devices);
            if (!kind) return kind.error();
            auto const fits_with = [&](std::int64_t count) { return fits_on(with_count(*kind, count)); };
            bool const has_others = std::any_of(kind->others.begin(), kind->others.end(), [](Device const& device) {
                return device.id.kind != DeviceClass::disk;
            });
            auto const found =
                has_others && fits_with(0) ? Optional<std::int64_t>{0} : smallest_that(max_added_devices, fits_with);
            if (!found) return false;
            request.devices = with_count(*kind, *found);
            answer.number = *found;
            return true;
        }
        case Inverse::quant: {
            estimate.quant = {};
            if (fits_on(request.devices)) return answer.word = "none", true;
            for (auto const& scheme : smaller_schemes(*task.model(), estimate)) {
                estimate.quant = scheme;
                if (!fits_on(request.devices)) continue;
                answer.word = quant_word(scheme);
                return true;
            }
            return false;
        }
    }
    return true;
}

}  // namespace

Result<PlacedModules> plan_map(PlacementTask const& task, MapRequest& request, List<MapEntry> const& custom,
                               MapAnswer& answer, Optional<Dtype> activations, NeedOfRun const& need) {
    if (auto const checked = task.check(request.estimate); !checked) return in_flags(checked.error());
    auto const is_answered = answer_inverse(task, request, answer);
    if (!is_answered) return is_answered.error();
    bool const is_custom = request.strategy == MapStrategy::custom;
    auto const granularity = is_custom ? Granularity::tensors : Granularity::modules;
    auto modules = task.sequence(request.estimate, granularity);
    if (activations) set_activations(task, request.estimate, *activations, granularity, modules);
    auto budgets = task.budgets(request.devices, request.estimate);
    if (auto const applied = apply_profile_option(task, request, modules, budgets, answer); !applied)
        return applied.error();
    if (is_custom) {
        for (auto& warning : Custom{.entries = custom}.warnings(modules)) answer.warnings.push_back(std::move(warning));
    }
    auto plan = plan_by_need(modules, budgets, request, custom, need);
    if (!plan) return plan.error();
    // A disk makes everything fit; what --max asks for leaves disks out.
    answer.fits = plan->fits && *is_answered;
    answer.device_map.reserve(plan->device_map.size());
    for (auto& entry : plan->device_map) answer.device_map.push_back({std::move(entry.prefix), entry.device});
    plan->device_map = {};
    answer.certificate = plan->certificate;
    answer.shortfall = plan->shortfall;
    if (plan->reason) answer.reason = plan->reason->message();
    if (plan->fits && !*is_answered) answer.reason = "nothing asked for fits in memory";
    auto const uses = plan->fits || is_custom ? plan->devices : partial_use(modules, budgets);
    for (auto const& use : uses) {
        AnswerDevice device{.id = use.id,
                            .name = {},
                            .capacity = use.capacity,
                            .total = use.capacity,
                            .used = use.used,
                            .weights = use.weights,
                            .kv_cache = use.kv_cache,
                            .activations = use.activations,
                            .overhead = use.overhead};
        for (auto const& given : request.devices) {
            if (given.id != use.id) continue;
            device.name = given.name.view();
            device.total = given.memory;
        }
        // Disks without a size are given as half of what 63 bits hold.
        if (use.id.kind == DeviceClass::disk && use.capacity >= Bytes{INT64_MAX / 2})
            device.capacity = device.total = std::nullopt;
        answer.devices.push_back(device);
    }
    if (!answer.fits) {
        auto fixes = find_fixes(task, request.devices, request.estimate);
        if (!fixes) return in_flags(fixes.error());
        answer.fixes = *std::move(fixes);
    }
    return PlacedModules{std::move(modules), std::move(budgets), std::move(plan->placement)};
}

}  // namespace shardwise::cli
