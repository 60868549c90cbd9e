// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/cost/efficiency.hpp>
#include <shardwise/cost/rank_group.hpp>
#include <shardwise/op/collective_load.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A link as a group's collectives find it.
struct Wire {
    double latency = 0.0;
    double bandwidth = 0.0;
    Reach reach = Reach::in_rounds;

    [[nodiscard]] constexpr double seconds(double bytes) const { return bandwidth > 0.0 ? bytes / bandwidth : 0.0; }
    [[nodiscard]] constexpr double seconds(CollectiveLoad const& load) const {
        return load.messages * latency + seconds(load.bytes);
    }
};

/// What a link gives each of `ranks` ranks. An infinity fabric connects every pair by a link of its own, and all of
/// them work at once; of every other kind the figure is all that a device has. Ranks on a memory bus see all others at once.
[[nodiscard]] constexpr Wire wire_of(Link const& link, std::int64_t ranks, Efficiency const& efficiency) {
    auto const lanes = link.type == LinkType::infinity_fabric && ranks > 1 ? static_cast<double>(ranks - 1) : 1.0;
    return {link.latency, link.bandwidth * (link.is_measured ? 1.0 : efficiency.link) * lanes,
            link.type == LinkType::memory_bus ? Reach::at_once : Reach::in_rounds};
}

[[nodiscard]] constexpr double flat_gather(double bytes, std::int64_t ranks, Wire const& wire) {
    return wire.seconds(gather_load(bytes, ranks, wire.reach));
}

/// At once: as the communicators of comm/ do it. In rounds: halving and doubling for long messages; for short ones every rank
/// sends all it has to all others and adds up.
[[nodiscard]] constexpr double flat_all_reduce(double bytes, std::int64_t ranks, Wire const& wire) {
    if (wire.reach == Reach::at_once) return wire.seconds(all_reduce_load(bytes, ranks));
    auto const halved = wire.seconds(parted_sum_load(bytes, ranks, wire.reach));
    auto const direct = wire.seconds(direct_sum_load(bytes, ranks));
    return halved < direct ? halved : direct;
}

}  // namespace detail

/// The time of an all-gather that leaves `bytes` on every rank; a reduce-scatter of `bytes` takes the same.
///
/// Units   seconds
/// Source  Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005
[[nodiscard]] constexpr double all_gather_seconds(double bytes, RankGroup const& group,
                                                  Efficiency const& efficiency = default_efficiency) {
    auto const inside = detail::wire_of(group.link, group.per_node, efficiency);
    if (group.nodes() <= 1) return detail::flat_gather(bytes, group.ranks, inside);
    auto const outside = detail::wire_of(group.network, 2, efficiency);
    auto const part = bytes / static_cast<double>(group.per_node);
    return detail::flat_gather(part, group.nodes(), outside) + detail::flat_gather(bytes, group.per_node, inside);
}

/// The time in which `bytes` on every rank become their sum on every rank. Over nodes: a reduce-scatter in each node,
/// an all-reduce between nodes of each rank's part, an all-gather in each node.
///
/// Units   seconds
/// Source  Thakur, Rabenseifner and Gropp, 2005; the hierarchy: Horovod's and NCCL's
[[nodiscard]] constexpr double all_reduce_seconds(double bytes, RankGroup const& group,
                                                  Efficiency const& efficiency = default_efficiency) {
    auto const inside = detail::wire_of(group.link, group.per_node, efficiency);
    if (group.nodes() <= 1) return detail::flat_all_reduce(bytes, group.ranks, inside);
    auto const outside = detail::wire_of(group.network, 2, efficiency);
    auto const part = bytes / static_cast<double>(group.per_node);
    return 2.0 * detail::flat_gather(bytes, group.per_node, inside) +
           detail::flat_all_reduce(part, group.nodes(), outside);
}

/// The time in which every rank sends `bytes` of rows to the ranks of a group, `copies` of each row to as many of them
/// evenly chosen. Between nodes a row goes once to each node that has a rank it is for, and is passed on there.
///
/// Units   seconds
/// Source  the order of DeepSeek-V3's dispatch (arXiv 2412.19437), section 3.2.2
[[nodiscard]] constexpr double dispatch_seconds(double bytes, std::int64_t copies, RankGroup const& group,
                                                Efficiency const& efficiency = default_efficiency) {
    if (group.ranks <= 1) return 0.0;
    auto const near = static_cast<double>(group.per_node);
    auto const inside = detail::wire_of(group.link, group.per_node, efficiency);
    auto const scattered = static_cast<double>(copies) * bytes * (near - 1.0) / near;
    auto const scattering = group.per_node > 1 ? inside.latency + inside.seconds(scattered) : 0.0;
    if (group.nodes() <= 1) return scattering;
    auto const nodes = static_cast<double>(group.nodes());
    auto missed = 1.0;
    for (std::int64_t copy = 0; copy < copies; ++copy) missed *= 1.0 - 1.0 / nodes;
    auto const outside = detail::wire_of(group.network, 2, efficiency);
    auto const sent = bytes * nodes * (1.0 - missed) * (nodes - 1.0) / nodes;
    auto const sending = doublings(group.nodes()) * outside.latency + outside.seconds(sent);
    return scattering < sending ? sending : scattering;
}

/// The time of one message over a link.
///
/// Units   seconds
/// Source  the alpha-beta model (Hockney, Parallel Computing 20(3), 1994)
[[nodiscard]] constexpr double send_seconds(double bytes, Link const& link,
                                            Efficiency const& efficiency = default_efficiency) {
    auto const wire = detail::wire_of(link, 2, efficiency);
    return wire.latency + wire.seconds(bytes);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
