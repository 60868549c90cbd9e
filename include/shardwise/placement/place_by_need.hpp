// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/placement/placement.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Places so that what a run will allocate fits, which units do not tell: layers off a device leave their cache there, and are fetched into
/// memory that it keeps for them. `place(budgets)` is a strategy, and `need(placement)` what the accelerators then take, by budget, overhead
/// apart: where one takes more than it has the strategy is asked again with less than what it had put there.
///
/// Errors  those of both; out_of_memory for the accelerator on which what nothing else takes does not fit
template <class Place, class Need>
[[nodiscard]] Result<Placement> place_by_need(ModuleSequence const& modules, Budgets budgets, Place const& place,
                                              Need const& need) {
    auto const given = budgets;
    std::optional<Error> overfull;
    while (true) {
        Result<Placement> placement = place(std::as_const(budgets));
        if (!placement && overfull && placement.error().code() == ErrorCode::out_of_memory) return *overfull;
        if (!placement) return placement;
        Result<List<Bytes>> const taken = need(*placement);
        if (!taken) return taken.error();
        auto const used = used_bytes(modules, budgets, *placement);
        bool fits = true;
        for (std::size_t i = 0; i < taken->size(); ++i) {
            auto const whole = (*taken)[i] + given[i].overhead;
            if (!given[i].is_accelerator() || (*taken)[i] == Bytes{} || whole <= given[i].capacity) continue;
            fits = false;
            auto const number = given[i].id.index;
            overfull = Error{ErrorCode::out_of_memory}
                           .in("the run")
                           .needs(whole)
                           .has(given[i].capacity)
                           .because("on device " + std::to_string(number) +
                                    ", with the cache of layers that are not there and what those are fetched into")
                           .fix("use a shorter context, weights or a cache of fewer bits, or more or larger devices");
            if (used[i] == Bytes{}) return *overfull;
            budgets[i].capacity = used[i] - Bytes{1};
        }
        if (fits) return placement;
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
