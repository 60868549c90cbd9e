// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/placement/placement.hpp>
#include <shardwise/placement/shortfall.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Refuses what is no placement of these units on these budgets. A certificate speaks of contiguous placements in the order of
/// the budgets, so a placement that has one must be of that kind.
///
/// Errors  invalid_argument, naming the strategy and the unit
[[nodiscard]] constexpr Result<> check_placement(std::string_view strategy, ModuleSequence const& modules,
                                                 Budgets const& budgets, Placement const& placement) {
    auto const refuse = [&](std::size_t unit, std::string_view reason) {
        Error error{ErrorCode::invalid_argument};
        error.in(strategy).because(reason);
        if (unit < modules.units.size()) error.at(modules.units[unit].path);
        return error;
    };
    auto const& device_of = placement.device_of;
    auto const as_number = [](std::size_t count) { return static_cast<std::int64_t>(count); };
    if (device_of.size() != modules.units.size()) {
        bool const is_short = device_of.size() < modules.units.size();
        return refuse(device_of.size(), is_short ? "the strategy gives no device for this unit and those after it"
                                                 : "the strategy gives devices for more units than there are")
            .got(as_number(device_of.size()))
            .expected(as_number(modules.units.size()))
            .fix("give one index for each unit, in the order of the units");
    }
    for (std::size_t unit = 0; unit < device_of.size(); ++unit) {
        if (device_of[unit] < 0 || static_cast<std::size_t>(device_of[unit]) >= budgets.size()) {
            return refuse(unit, "the strategy gives this unit a device that no budget has")
                .got(device_of[unit])
                .fix("give an index from 0 to the number of budgets less 1");
        }
        if (placement.certificate && unit > 0 && device_of[unit] < device_of[unit - 1]) {
            return refuse(unit, "the strategy certifies a contiguous placement, and this unit returns to an earlier device")
                .got(device_of[unit])
                .at_least(device_of[unit - 1])
                .fix("leave the certificate out, or place the units in the order of the budgets");
        }
    }
    return {};
}

/// The budget that a placement overfills most, by its index; nothing where every device holds what it is given.
[[nodiscard]] constexpr Optional<std::size_t> find_overfull(Budgets const& budgets, List<Bytes> const& used) {
    Optional<std::size_t> most;
    Bytes missing{};
    for (std::size_t i = 0; i < budgets.size(); ++i) {
        if (used[i] <= budgets[i].capacity || used[i] - budgets[i].capacity <= missing) continue;
        missing = used[i] - budgets[i].capacity;
        most = i;
    }
    return most;
}

/// The refusal of a placement that overfills a device: names the strategy and the first unit that the device cannot hold.
[[nodiscard]] constexpr Error overfull_error(std::string_view strategy, ModuleSequence const& modules,
                                             Budgets const& budgets, Placement const& placement, std::size_t device) {
    Error error{ErrorCode::out_of_memory};
    error.in(strategy).fix("add a device, quantize, lower the context, or place less on this device");
    auto const capacity = budgets[device].capacity;
    detail::DeviceFill fill(budgets[device]);
    for (std::size_t unit = 0; unit < modules.units.size(); ++unit) {
        if (placement.device_of[unit] != static_cast<std::int32_t>(device)) continue;
        fill.add(modules.units[unit]);
        if (fill.used() <= capacity) continue;
        error.at(modules.units[unit].path).needs(fill.used()).has(capacity);
        return error.because("counting what the strategy puts on the same device before it");
    }
    return error;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
