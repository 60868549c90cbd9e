// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/device.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Ranks that exchange messages: all in one node, or the same number in each of several nodes.
struct RankGroup {
    std::int64_t ranks = 1;
    /// Of these ranks, how many sit in one node; `ranks` where they all do.
    std::int64_t per_node = 1;
    /// Between ranks of a node: the slowest of them.
    Link link{};
    /// Between nodes: a rank's own share of its node's way out.
    Link network{};

    /// Ranks of one node, or any group of which only the slowest link counts.
    [[nodiscard]] static constexpr RankGroup in_node(std::int64_t ranks, Link const& link) {
        return {ranks, ranks, link, {}};
    }
    [[nodiscard]] constexpr std::int64_t nodes() const { return per_node > 0 ? (ranks + per_node - 1) / per_node : 1; }

    friend constexpr bool operator==(RankGroup const&, RankGroup const&) = default;
};

namespace detail {

[[nodiscard]] constexpr Link slower_link(Link const& a, Link const& b) {
    if (a.type == LinkType::none) return b;
    if (b.type == LinkType::none) return a;
    auto slower = a.bandwidth <= b.bandwidth ? a : b;
    slower.latency = a.latency > b.latency ? a.latency : b.latency;
    return slower;
}

}  // namespace detail

/// The group of all ranks that are reached by both groups: neighbours of `inner` within each rank of `outer`.
[[nodiscard]] constexpr RankGroup joined(RankGroup const& inner, RankGroup const& outer) {
    if (inner.ranks <= 1) return outer;
    if (outer.ranks <= 1) return inner;
    bool const is_inner_whole = inner.nodes() <= 1;
    return {inner.ranks * outer.ranks, inner.per_node * (is_inner_whole ? outer.per_node : 1),
            detail::slower_link(inner.link, outer.per_node > 1 ? outer.link : Link{}),
            detail::slower_link(inner.network, outer.network)};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
