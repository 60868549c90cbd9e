// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/plan/device_order.hpp>
#include <shardwise/plan/plan_layout.hpp>
#include <shardwise/plan/stage_reach.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Finds where ranks sit: the devices of a layout, the groups' links, what a stage can hold.
class SiteFinder {
public:
    /// `counts_runtime` and `cache` as DeviceClasses'.
    explicit SiteFinder(Topology topology, bool counts_runtime = true, CacheKind const& cache = {})
        : topology_(std::move(topology)), wiring_(topology_, counts_runtime, cache) {
        for (auto& indices : index_) indices.assign(static_cast<std::size_t>(count()) + 1, 0);
    }
    SiteFinder(SiteFinder const&) = delete;
    SiteFinder& operator=(SiteFinder const&) = delete;

    [[nodiscard]] std::int64_t count() const { return wiring_.count(); }
    [[nodiscard]] std::int64_t largest_node() const { return wiring_.largest_node(); }
    [[nodiscard]] std::size_t node_count() const { return wiring_.node_count(); }
    [[nodiscard]] bool is_uniform() const { return classes().count() <= 1; }
    [[nodiscard]] Device const& device(std::int32_t position) const { return wiring_.device(position); }
    [[nodiscard]] DeviceClasses const& classes() const { return wiring_.classes(); }

    /// The classes of the devices of each stage, as bits; of at most 64.
    [[nodiscard]] List<std::uint64_t> classes_of_stages(PlanDegrees const& degrees, PlanLayout const& layout) {
        auto const& found = order(layout).devices.classes();
        List<std::uint64_t> stages(static_cast<std::size_t>(degrees.pp), 0);
        for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
            auto& bits = stages[static_cast<std::size_t>(stage)];
            for_each_range(stage, degrees, layout, [&](std::int64_t first, std::int64_t end) {
                found.for_each(first, end, [&](std::size_t index) { bits |= std::uint64_t{1} << index; });
            });
        }
        return stages;
    }

    /// On which classes of devices stages may lie, for each order of the devices that differs; nothing of more than 64
    /// classes.
    [[nodiscard]] List<OrderReach> const& reaches() {
        if (!reaches_.empty() || classes().count() > 64) return reaches_;
        auto const plain = order({false, false, 1}).devices.devices();
        for (bool const is_strongest_first : {false, true}) {
            auto const& own = order({false, is_strongest_first, 1}).devices;
            if (!is_strongest_first || !(own.devices() == plain)) reaches_.push_back(OrderReach(own, wiring_));
        }
        return reaches_;
    }

    /// The class of the device of each stage that leaves the least to a rank.
    [[nodiscard]] List<std::size_t> smallest(PlanDegrees const& degrees, PlanLayout const& layout) {
        List<std::size_t> smallest;
        for (std::int64_t stage = 0; stage < degrees.pp; ++stage)
            smallest.push_back(smallest_of(stage, degrees, layout));
        return smallest;
    }
    /// What the runtime takes of a device.
    [[nodiscard]] Bytes runtime(std::int32_t position) const { return classes().runtime(classes().of(position)); }

    /// The layouts of these degrees that differ and for which there are devices enough.
    [[nodiscard]] List<PlanLayout> layouts(PlanDegrees const& degrees) {
        List<PlanLayout> all;
        for (bool const is_strongest_first : {false, true}) {
            if (is_strongest_first && is_uniform()) break;
            std::int64_t previous = 0;
            for (auto const aligned : {std::int64_t{1}, degrees.tp, degrees.tp * degrees.ep}) {
                if (aligned == previous || aligned > largest_node()) continue;
                PlanLayout layout{false, is_strongest_first, aligned};
                auto const& own = order(layout);
                if (aligned > 1 && !own.leaves_gaps) continue;
                previous = aligned;
                if (own.devices.size() < degrees.ranks()) continue;
                all.push_back(layout);
                if (degrees.dp == 1 || degrees.pp == 1) continue;
                layout.is_replica_outermost = true;
                all.push_back(layout);
            }
        }
        return all;
    }

    /// The position of a rank's device in the topology.
    [[nodiscard]] std::int32_t device_of(RankPlace const& place, PlanDegrees const& degrees, PlanLayout const& layout) {
        return order(layout).devices.device(first_of(place.pp, place.dp, degrees, layout) + place.ep * degrees.tp +
                                            place.tp);
    }

    [[nodiscard]] PlanSites sites(PlanDegrees const& degrees, PlanLayout const& layout) {
        PlanSites sites;
        auto& devices = order(layout).devices;
        auto const group = degrees.tp * degrees.ep;
        sites.weakest.reserve(static_cast<std::size_t>(degrees.pp));
        auto const stride = layout.is_replica_outermost ? group * degrees.pp : group;
        auto const& tps = devices.groups(1, degrees.tp, 1);
        auto const& eps = devices.groups(degrees.tp, degrees.ep, degrees.tp);
        auto const& dps = devices.groups(stride, degrees.dp, group);
        for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
            StageSite site;
            site.tp.ranks = site.ep.ranks = site.dp.ranks = 0;
            for_each_range(stage, degrees, layout, [&](std::int64_t first, std::int64_t end) {
                tps.for_each(first / degrees.tp, end / degrees.tp,
                             [&](RankGroup const& found) { DeviceOrder::widen(site.tp, found); });
                eps.for_each(first / group, end / group,
                             [&](RankGroup const& found) { DeviceOrder::widen(site.ep, found); });
                devices.classes().for_each(first, end, [&](std::size_t index) { add_device(sites, site, index); });
            });
            dps.for_each(stage, stage + 1, [&](RankGroup const& found) { site.dp = found; });
            auto const capacity = classes().capacity(smallest_of(stage, degrees, layout));
            if (stage > 0)
                sites.are_alike = sites.are_alike && is_alike(site, sites.stages[0]) && capacity == sites.capacities[0];
            sites.stages.push_back(site);
            sites.capacities.push_back(capacity);
        }
        if (degrees.pp == 1) return sites;
        auto const& links = devices.links(first_of(1, 0, degrees, layout));
        for (std::int64_t stage = 0; stage + 1 < degrees.pp; ++stage) {
            auto& next = sites.stages[static_cast<std::size_t>(stage)].next;
            for_each_range(stage, degrees, layout, [&](std::int64_t first, std::int64_t end) {
                links.for_each(first, end, [&](Link const& link) { next = detail::slower_link(next, link); });
            });
        }
        return sites;
    }

    /// A site that none of a tensor- and expert-parallel group can be better than.
    [[nodiscard]] StageSite best_site(std::int64_t tp, std::int64_t ep) const {
        return best_site(tp, ep, classes().strongest(), classes().best_link(), classes().best_network());
    }
    /// A group that none of `ranks` data-parallel ranks can be better than, each `stride` devices after the one before.
    [[nodiscard]] RankGroup best_replicas(std::int64_t ranks, std::int64_t stride) const {
        return best_group(ranks, stride, best_ways(classes().best_link(), classes().best_network()));
    }
    /// The same of groups with a device of this class. Where it is the group's only one in its node, the others' links
    /// may be faster than its own.
    [[nodiscard]] StageSite best_site(std::int64_t tp, std::int64_t ep, std::size_t index) const {
        auto const& own = classes().device(index);
        if (own.link.type == LinkType::none)
            return best_site(tp, ep, own, classes().best_link(), classes().best_network());
        auto const& link = node_count() > 1 ? classes().best_link() : own.link;
        return best_site(tp, ep, own, link, DeviceClasses::network_of(own));
    }

private:
    struct LaidDevices {
        DeviceOrder devices;
        /// False where these are the first ones of those that are not aligned.
        bool leaves_gaps = false;
    };

    /// Between devices of a node, and between nodes, so far as that makes a difference.
    struct BestWays {
        Link link{};
        Link network{};
        /// The devices between which `link` is the way.
        std::int64_t node = 0;
    };
    BestWays best_ways(Link link, Link const& known_network) const {
        auto const network = detail::faster_link(known_network, classes().best_explicit());
        link = detail::faster_link(link, classes().best_explicit());
        bool const is_network_worse = network.bandwidth <= link.bandwidth && network.latency >= link.latency;
        if (!is_network_worse && node_count() > 1) link = detail::faster_link(link, network);
        return {link, network, is_network_worse ? largest_node() : count()};
    }
    /// The fewest ranks of such a group that a node can have, of those groups that begin side by side.
    std::int64_t least_near(std::int64_t ranks, std::int64_t stride) const {
        auto const block = ranks * stride;
        auto const node = largest_node();
        bool const is_even = wiring_.has_even_nodes() && (block % node == 0 || node % block == 0);
        auto const nodes = ceil_divide(is_even ? block : block - 1, node) + (is_even ? 0 : 1);
        return ceil_divide(ranks, nodes < ranks ? nodes : ranks);
    }
    /// With as many ranks in a node as can be, in all groups that begin side by side. One with fewer of them there may
    /// have less to wait for in a node, and in an exchange of rows less to pass on there: the link is as much faster.
    RankGroup best_group(std::int64_t ranks, std::int64_t stride, BestWays const& ways, bool is_dealing = false) const {
        auto const step = wiring_.has_plain_nodes() ? stride : 1;
        auto const most = ranks * step <= ways.node ? ranks : ceil_divide(ways.node, step);
        auto const nodes = ceil_divide(ranks, most);
        RankGroup group{ranks, ceil_divide(ranks, nodes), ways.link, ways.network};
        if (node_count() == 1 || ways.node != largest_node() || group.per_node == 1) return group;
        auto const least = wiring_.has_plain_nodes() ? least_near(ranks, step) : 1;
        group.link.latency *= doublings(least) / doublings(group.per_node);
        auto const share = [](std::int64_t count) { return 1.0 - 1.0 / static_cast<double>(count); };
        if (is_dealing && least < group.per_node)
            group.link.bandwidth *= least > 1 ? share(group.per_node) / share(least) : 1e9;
        return group;
    }

    StageSite best_site(std::int64_t tp, std::int64_t ep, Device const& device, Link const& link,
                        Link const& network) const {
        auto const ways = best_ways(link, network);
        StageSite site;
        site.device = &device;
        site.tp = best_group(tp, 1, ways);
        site.ep = best_group(ep, tp, ways, true);
        site.next = detail::faster_link(ways.link, node_count() > 1 ? ways.network : Link{});
        return site;
    }

    /// The devices of a layout, in order. Valid until those of another one are asked for.
    LaidDevices& order(PlanLayout const& layout) {
        auto& index = index_[layout.is_strongest_first ? 1 : 0][static_cast<std::size_t>(layout.aligned)];
        if (index == 0) {
            auto laid = lay(layout);
            orders_.push_back(static_cast<LaidDevices&&>(laid));
            index = static_cast<std::int32_t>(orders_.size());
        }
        return orders_[static_cast<std::size_t>(index) - 1];
    }

    LaidDevices lay(PlanLayout const& layout) {
        List<std::int32_t> devices;
        if (layout.aligned > 1) {
            auto const& plain = order({false, layout.is_strongest_first, 1}).devices.devices();
            devices = aligned_sequence(plain, layout.aligned);
            bool leaves_gaps = false;
            for (std::size_t i = 0; i < devices.size(); ++i) leaves_gaps = leaves_gaps || devices[i] != plain[i];
            return {DeviceOrder(wiring_, static_cast<List<std::int32_t>&&>(devices)), leaves_gaps};
        }
        if (!layout.is_strongest_first) {
            for (std::int32_t i = 0; i < count(); ++i) devices.push_back(i);
        } else {
            List<std::size_t> sorted;
            for (std::size_t i = 0; i < classes().count(); ++i) {
                auto place = sorted.size();
                while (place > 0 && classes().is_stronger(i, sorted[place - 1])) --place;
                (void)sorted.insert(sorted.begin() + place, i);
            }
            for (auto const id : sorted) {
                for (std::int32_t i = 0; i < count(); ++i) {
                    if (classes().of(i) == id) devices.push_back(i);
                }
            }
        }
        return {DeviceOrder(wiring_, static_cast<List<std::int32_t>&&>(devices)), false};
    }

    List<std::int32_t> aligned_sequence(List<std::int32_t> const& plain, std::int64_t aligned) const {
        List<std::int32_t> order;
        auto const size = static_cast<std::size_t>(aligned);
        for (std::size_t i = 0; i + size <= plain.size();) {
            std::size_t run = 1;
            while (run < size && wiring_.node_of(plain[i + run]) == wiring_.node_of(plain[i])) ++run;
            if (run == size) order.append(plain.begin() + i, plain.begin() + i + run);
            i += run;
        }
        return order;
    }

    static std::int64_t first_of(std::int64_t stage, std::int64_t replica, PlanDegrees const& degrees,
                                 PlanLayout const& layout) {
        auto const slot = layout.is_replica_outermost ? replica * degrees.pp + stage : stage * degrees.dp + replica;
        return slot * degrees.tp * degrees.ep;
    }

    /// Calls `visit` with the first place and the end of all places of a stage that lie side by side.
    template <class Visit>
    static void for_each_range(std::int64_t stage, PlanDegrees const& degrees, PlanLayout const& layout,
                               Visit const& visit) {
        auto const size = degrees.tp * degrees.ep * (layout.is_replica_outermost ? 1 : degrees.dp);
        for (std::int64_t replica = 0; replica < (layout.is_replica_outermost ? degrees.dp : 1); ++replica) {
            auto const first = first_of(stage, replica, degrees, layout);
            visit(first, first + size);
        }
    }

    std::size_t smallest_of(std::int64_t stage, PlanDegrees const& degrees, PlanLayout const& layout) {
        auto smallest = classes().count();
        auto const& found = order(layout).devices.classes();
        for_each_range(stage, degrees, layout, [&](std::int64_t first, std::int64_t end) {
            found.for_each(first, end, [&](std::size_t index) {
                if (smallest == classes().count() || classes().capacity(index) < classes().capacity(smallest))
                    smallest = index;
            });
        });
        return smallest;
    }

    void add_device(PlanSites& sites, StageSite& site, std::size_t index) const {
        auto const& own = classes().device(index);
        if (site.device == nullptr) site.device = &own;
        if (&own == site.device || detail::is_no_worse(own, *site.device)) return;
        bool const is_new = sites.weakest.empty() || site.device != &sites.weakest.back();
        if (is_new)
            sites.weakest.push_back(detail::mixed_device(*site.device, own, false));
        else
            sites.weakest.back() = detail::mixed_device(*site.device, own, false);
        site.device = &sites.weakest.back();
    }

    static bool is_alike(StageSite const& a, StageSite const& b) {
        return a.device == b.device && a.tp == b.tp && a.ep == b.ep && a.dp == b.dp;
    }

    Topology topology_;
    DeviceWiring wiring_;
    List<LaidDevices> orders_;
    List<OrderReach> reaches_;
    /// Of a layout in `orders_`, from 1 on: in the topology's order or the strongest first, and by what it is aligned
    /// to.
    std::array<List<std::int32_t>, 2> index_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
