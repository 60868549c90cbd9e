#pragma once

#include <shardwise/cost/efficiency.hpp>
#include <shardwise/cost/rank_group.hpp>

#include <cstdint>

namespace shardwise::inline v0 {

namespace detail {

/// The number of rounds in which a count of ranks doubles up to `ranks`.
[[nodiscard]] constexpr double doublings(std::int64_t ranks) {
    double rounds = 0.0;
    for (std::int64_t reached = 1; reached < ranks; reached *= 2) rounds += 1.0;
    return rounds;
}

/// A link as collectives find it.
struct Wire {
    double latency = 0.0;
    double bandwidth = 0.0;

    [[nodiscard]] constexpr double seconds(double bytes) const { return bandwidth > 0.0 ? bytes / bandwidth : 0.0; }
};

[[nodiscard]] constexpr Wire wire_of(Link const& link, Efficiency const& efficiency) {
    return {link.latency, link.bandwidth * efficiency.link};
}

[[nodiscard]] constexpr double least(double a, double b) { return a < b ? a : b; }

/// An all-gather (or reduce-scatter) of `bytes` over ranks that are all alike: by a ring, by doubling, or directly.
[[nodiscard]] constexpr double flat_gather(double bytes, std::int64_t ranks, Wire const& wire) {
    if (ranks <= 1) return 0.0;
    auto const p = static_cast<double>(ranks);
    auto const moved = wire.seconds(bytes * (p - 1.0) / p);
    // Ring: p - 1 rounds; recursive doubling: log p rounds; the same bytes.
    return doublings(ranks) * wire.latency + moved;
}

[[nodiscard]] constexpr double flat_all_reduce(double bytes, std::int64_t ranks, Wire const& wire) {
    if (ranks <= 1) return 0.0;
    auto const p = static_cast<double>(ranks);
    auto const halves = 2.0 * flat_gather(bytes, ranks, wire);
    auto const direct = wire.latency + wire.seconds((p - 1.0) * bytes);
    return least(halves, direct);
}

}  // namespace detail

/// The time of an all-gather that leaves `bytes` on every rank; a reduce-scatter of `bytes` takes the same.
[[nodiscard]] constexpr double all_gather_seconds(double bytes, RankGroup const& group,
                                                  Efficiency const& efficiency = default_efficiency) {
    auto const inside = detail::wire_of(group.link, efficiency);
    if (group.nodes() <= 1) return detail::flat_gather(bytes, group.ranks, inside);
    auto const outside = detail::wire_of(group.network, efficiency);
    auto const share = bytes / static_cast<double>(group.per_node);
    return detail::flat_gather(share, group.nodes(), outside) + detail::flat_gather(bytes, group.per_node, inside);
}

/// The time in which `bytes` on every rank become their sum on every rank. Over nodes: a reduce-scatter in each node, an
/// all-reduce between nodes of each rank's part, an all-gather in each node.
[[nodiscard]] constexpr double all_reduce_seconds(double bytes, RankGroup const& group,
                                                  Efficiency const& efficiency = default_efficiency) {
    auto const inside = detail::wire_of(group.link, efficiency);
    if (group.nodes() <= 1) return detail::flat_all_reduce(bytes, group.ranks, inside);
    auto const outside = detail::wire_of(group.network, efficiency);
    auto const share = bytes / static_cast<double>(group.per_node);
    return 2.0 * detail::flat_gather(bytes, group.per_node, inside) +
           detail::flat_all_reduce(share, group.nodes(), outside);
}

/// The time of one message over a link.
[[nodiscard]] constexpr double send_seconds(double bytes, Link const& link,
                                            Efficiency const& efficiency = default_efficiency) {
    auto const wire = detail::wire_of(link, efficiency);
    return wire.latency + wire.seconds(bytes);
}

}  // namespace shardwise::inline v0
