// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/plan/parallel_plan.hpp>
#include <shardwise/plan/site_finder.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a rank takes, and what its device has.
struct RankLoad {
    Bytes bytes{};
    Bytes capacity{};

    [[nodiscard]] double share() const {
        return static_cast<double>(bytes.count()) / static_cast<double>(capacity.count());
    }
};

/// The bytes of the fullest rank.
[[nodiscard]] inline Bytes fullest_rank(List<PlanRank> const& ranks) {
    Bytes most{};
    for (auto const& rank : ranks) most = most < rank.terms.total() ? rank.terms.total() : most;
    return most;
}

/// True where every rank fits its device.
[[nodiscard]] inline bool fit_devices(List<PlanRank> const& ranks, SiteFinder const& sites) {
    for (auto const& rank : ranks) {
        if (sites.device(rank.device).available() < rank.terms.total()) return false;
    }
    return true;
}

/// The rank whose device is filled the most, by its share.
[[nodiscard]] inline RankLoad most_loaded(List<PlanRank> const& ranks, SiteFinder const& sites) {
    RankLoad most{{}, Bytes{1}};
    for (auto const& rank : ranks) {
        RankLoad const load{rank.terms.total(), sites.device(rank.device).available()};
        if (most.share() < load.share()) most = load;
    }
    return most;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
