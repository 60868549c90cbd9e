// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/placement/fill_evenly.hpp>
#include <shardwise/placement/optimal_bottleneck.hpp>
#include <shardwise/placement/optimal_latency.hpp>
#include <shardwise/placement/strategy.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The best contiguous placement on the devices in their order: least bytes on disk, then least on the cpu, then the least
/// value of the objective over the accelerators. Of placements of the same largest load it takes one that uses as many accelerators
/// as any does, and of those one whose smallest load is largest; the other objectives may leave devices empty that only cost a hop.
/// The certificate's bound is the value itself: the search proves that nothing is below it.
///
/// Order   O(units * 60) for load and bottleneck, O(units * devices^2) for latency
/// Errors  out_of_memory that names the unit for which no device has room
struct Optimal {
    std::string_view name = "optimal";
    Objective objective = Objective::load;

    Result<Placement> operator()(ModuleSequence const& modules, Budgets const& budgets) const {
        auto const& units = modules.units;
        auto const count = units.size();
        auto result = objective == Objective::load ? detail::fill_evenly(modules, budgets) : detail::fill_whole(modules, budgets);
        if (!result) return result.error();
        auto& filling = *result;
        Certificate certificate{objective, 0.0, 0.0};
        if (objective != Objective::load) {
            Budgets const accelerators(budgets.begin(), budgets.begin() + count_accelerators(budgets));
            auto const end = accelerators.empty() ? 0 : filling.end_of[accelerators.size() - 1];
            auto const* after = end < count ? &budgets[first_beyond(filling, accelerators.size(), end)] : nullptr;
            auto best = objective == Objective::bottleneck ? detail::minimise_bottleneck(units, end, accelerators)
                                                           : detail::minimise_latency(units, end, accelerators, after);
            for (std::size_t i = 0; i < accelerators.size(); ++i) filling.end_of[i] = best->filling.end_of[i];
        }
        auto placement = detail::to_placement(filling, count);
        certificate.value = objective_value(objective, modules, budgets, placement);
        certificate.lower_bound = certificate.value;
        placement.certificate = certificate;
        return placement;
    }

    /// The objective's value of any placement, cpu and disk stages included.
    ///
    /// Units  a ratio for load, seconds otherwise
    [[nodiscard]] static double objective_value(Objective objective, ModuleSequence const& modules, Budgets const& budgets,
                                                Placement const& placement) {
        if (objective == Objective::load) {
            auto const used = used_bytes(modules, budgets, placement);
            detail::LoadRatio largest{0, 1};
            for (std::size_t i = 0; i < budgets.size(); ++i) {
                if (budgets[i].id.kind == DeviceClass::disk || used[i] <= Bytes{}) continue;
                detail::LoadRatio const load{used[i].count(), budgets[i].capacity.count()};
                if (largest < load) largest = load;
            }
            return largest.value();
        }
        List<detail::Picoseconds> stage(budgets.size(), 0);
        detail::Picoseconds links = 0;
        for (std::size_t i = 0; i < modules.units.size(); ++i) {
            auto const device = static_cast<std::size_t>(placement.device_of[i]);
            stage[device] += detail::time_of(modules.units[i], budgets[device]);
            if (i == 0 || placement.device_of[i - 1] == placement.device_of[i]) continue;
            links += detail::link_time(modules.units[i - 1], budgets[static_cast<std::size_t>(placement.device_of[i - 1])],
                                       budgets[device]);
        }
        detail::Picoseconds slowest = 0;
        detail::Picoseconds sum = links;
        for (auto const time : stage) {
            if (time > slowest) slowest = time;
            sum += time;
        }
        return static_cast<double>(objective == Objective::bottleneck ? slowest : sum) * 1e-12;
    }

private:
    /// The budget after the accelerators that takes the unit at `end`.
    static std::size_t first_beyond(detail::Filling const& filling, std::size_t accelerators, std::size_t end) {
        auto device = accelerators;
        while (filling.end_of[device] <= end) ++device;
        return device;
    }
};

static_assert(PlacementStrategy<Optimal>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
