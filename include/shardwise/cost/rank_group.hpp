#pragma once

#include <shardwise/hardware/device.hpp>

#include <cstdint>

namespace shardwise::inline v0 {

/// Ranks that exchange messages: all in one node, or the same number in each of several nodes.
struct RankGroup {
    std::int64_t ranks = 1;
    /// Of these ranks, how many sit in one node; `ranks` where they all do.
    std::int64_t per_node = 1;
    /// Between ranks of a node; also between all where `per_node` is 1 and `network` is nothing.
    Link link{};
    /// Between nodes: a rank's own share of its node's way out.
    Link network{};

    /// Ranks of one node, or any group whose slowest link is known and nothing else.
    [[nodiscard]] static constexpr RankGroup in_node(std::int64_t ranks, Link const& link) {
        return {ranks, ranks, link, {}};
    }
    [[nodiscard]] constexpr std::int64_t nodes() const { return per_node > 0 ? (ranks + per_node - 1) / per_node : 1; }

    friend constexpr bool operator==(RankGroup const&, RankGroup const&) = default;
};

}  // namespace shardwise::inline v0
