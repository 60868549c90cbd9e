// SPDX-License-Identifier: Apache-2.0
#include "deploy_selection.hpp"

#include <shardwise/deploy/check_deploy.hpp>

#include "deploy_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

/// Machines with more devices than this are asked for runs of neighbours only: every choice would be too many.
constexpr std::size_t max_chosen_freely = 10;
/// Choices of a size that are planned, the best joined first.
constexpr std::size_t max_planned = 12;

using Selection = std::vector<std::size_t>;

/// All selections of `size` of `count` devices; of many devices the runs of neighbours.
[[nodiscard]] std::vector<Selection> selections_of(std::size_t count, std::size_t size) {
    std::vector<Selection> all;
    if (count > max_chosen_freely) {
        for (std::size_t first = 0; first + size <= count; ++first) {
            Selection selection;
            for (std::size_t i = 0; i < size; ++i) selection.push_back(first + i);
            all.push_back(std::move(selection));
        }
        return all;
    }
    for (std::size_t bits = 1; bits < (std::size_t{1} << count); ++bits) {
        Selection selection;
        for (std::size_t i = 0; i < count; ++i) {
            if ((bits >> i & 1U) != 0) selection.push_back(i);
        }
        if (selection.size() == size) all.push_back(std::move(selection));
    }
    return all;
}

[[nodiscard]] bool is_one_kind(DeployDevices const& found, Selection const& selection) {
    return std::all_of(selection.begin(), selection.end(), [&](std::size_t i) {
        return found.devices[i].kind == found.devices[selection.front()].kind;
    });
}

/// The bytes that the fullest of them has free.
[[nodiscard]] std::int64_t min_free(DeployDevices const& found, Selection const& selection) {
    std::int64_t least = INT64_MAX;
    for (auto const i : selection) least = std::min(least, found.topology.devices[i].available().count());
    return least;
}

[[nodiscard]] double slowest_link(DeployDevices const& found, Selection const& selection) {
    if (selection.size() < 2) return 0.0;
    return found.topology.slowest_between({selection.data(), selection.size()}).bandwidth;
}

/// Only these devices, and the links between them.
[[nodiscard]] DeployDevices selected(DeployDevices const& found, Selection const& selection) {
    DeployDevices chosen;
    chosen.is_own = found.is_own;
    std::vector<std::int32_t> position(found.topology.devices.size(), -1);
    for (auto const i : selection) {
        position[i] = static_cast<std::int32_t>(chosen.devices.size());
        chosen.topology.devices.push_back(found.topology.devices[i]);
        chosen.devices.push_back(found.devices[i]);
    }
    for (auto const& link : found.topology.links) {
        auto const first = position[static_cast<std::size_t>(link.first)];
        auto const second = position[static_cast<std::size_t>(link.second)];
        if (first >= 0 && second >= 0) chosen.topology.links.push_back({first, second, link.link});
    }
    return chosen;
}

}  // namespace

Result<> plan_on(LoadedModel const& loaded, EstimateRequest const& estimate, DeployDevices const& found,
                 DeployRequest& request) {
    request.devices = found.devices;
    auto unplanned = request;
    // Shards are all that TGI knows.
    if (request.engine == Engine::tgi && !request.devices.empty()) unplanned.tp = request.device_count();
    if (auto const checked = check_deploy(unplanned); !checked) return checked;
    return plan_deployment(loaded, estimate, found, request);
}

Result<> plan_on_fewest(LoadedModel const& loaded, EstimateRequest const& estimate, DeployDevices& found,
                        DeployRequest& request) {
    std::optional<Error> refused;
    auto const most = request.engine == Engine::tei ? std::min<std::size_t>(found.devices.size(), 1)
                                                    : found.devices.size();
    for (std::size_t size = 1; size <= most; ++size) {
        auto selections = selections_of(found.devices.size(), size);
        std::stable_sort(selections.begin(), selections.end(), [&](Selection const& a, Selection const& b) {
            auto const one = slowest_link(found, a);
            auto const other = slowest_link(found, b);
            if (one > other || other > one) return one > other;
            return min_free(found, a) > min_free(found, b);
        });
        std::size_t planned = 0;
        for (auto const& selection : selections) {
            if (!is_one_kind(found, selection)) continue;
            if (planned++ == max_planned) break;
            auto const chosen = selected(found, selection);
            auto tried = request;
            auto const done = plan_on(loaded, estimate, chosen, tried);
            if (done) {
                auto warnings = std::move(found.warnings);
                found = chosen;
                found.warnings = std::move(warnings);
                request = std::move(tried);
                return {};
            }
            // Of a model that is too large the memory is what matters, not that some number is odd.
            bool const is_better = !refused || done.error().code() == ErrorCode::out_of_memory ||
                                   refused->code() != ErrorCode::out_of_memory;
            if (is_better) refused = done.error();
        }
    }
    if (refused) return *refused;
    return plan_on(loaded, estimate, found, request);
}

}  // namespace shardwise::cli
