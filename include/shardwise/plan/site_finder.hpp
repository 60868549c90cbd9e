#pragma once

#include <shardwise/plan/device_classes.hpp>
#include <shardwise/plan/plan_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline v0_2_0 {

/// Finds where ranks sit: the devices of a layout, the groups' links, what a stage can hold.
class SiteFinder {
public:
    explicit SiteFinder(Topology const& topology) : devices_(topology.accelerators()), classes_(topology) {
        neighbours_.resize(topology.links.empty() ? 0 : devices_.size());
        for (auto const& pair : topology.links) {
            auto const count = static_cast<std::int32_t>(devices_.size());
            if (pair.first < 0 || pair.second < 0 || pair.first >= count || pair.second >= count) continue;
            neighbours_[static_cast<std::size_t>(pair.first)].push_back({pair.second, pair.link});
            neighbours_[static_cast<std::size_t>(pair.second)].push_back({pair.first, pair.link});
        }
        List<std::int32_t> nodes;
        List<std::int64_t> sizes;
        for (auto const& device : devices_) {
            std::size_t node = 0;
            while (node < nodes.size() && nodes[nodes.size() - 1 - node] != device.node) ++node;
            if (node == nodes.size()) {
                nodes.push_back(device.node);
                sizes.push_back(0);
                node = nodes.size() - 1;
            } else {
                node = nodes.size() - 1 - node;
            }
            node_of_.push_back(node);
            if (largest_node_ < ++sizes[node]) largest_node_ = sizes[node];
        }
        seen_.resize(nodes.size());
        has_like_nodes_ = is_uniform() && neighbours_.empty();
        for (std::size_t i = 0; i < node_of_.size(); ++i) {
            auto const node = static_cast<std::int64_t>(i) / largest_node_;
            has_like_nodes_ = has_like_nodes_ && node_of_[i] == static_cast<std::size_t>(node);
        }
        (void)sequence({});
    }

    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(devices_.size()); }
    [[nodiscard]] std::int64_t largest_node() const { return largest_node_; }
    [[nodiscard]] std::size_t node_count() const { return seen_.size(); }
    [[nodiscard]] bool is_uniform() const { return classes_.count() <= 1; }
    [[nodiscard]] Device const& device(std::int32_t position) const {
        return devices_[static_cast<std::size_t>(position)];
    }

    [[nodiscard]] DeviceClasses const& classes() const { return classes_; }
    /// The classes of the devices of each stage, as bits; of at most 64.
    [[nodiscard]] List<std::uint64_t> classes_of_stages(PlanDegrees const& degrees, PlanLayout const& layout) {
        auto const& order = sequence(layout);
        List<std::uint64_t> stages(static_cast<std::size_t>(degrees.pp), 0);
        auto const group = degrees.tp * degrees.ep;
        auto const block = layout.is_replica_outermost ? group : group * degrees.dp;
        auto const& runs = runs_of(layout);
        std::size_t run = 0;
        for (std::int64_t first = 0; first < degrees.ranks(); first += block) {
            auto const number = first / block;
            auto& classes =
                stages[static_cast<std::size_t>(layout.is_replica_outermost ? number % degrees.pp : number)];
            while (runs[run] <= first) ++run;
            for (auto i = run; true; ++i) {
                auto const last = static_cast<std::size_t>(runs[i] - 1);
                classes |= std::uint64_t{1} << classes_.of(order[last]);
                if (runs[i] >= first + block) break;
            }
        }
        return stages;
    }

    /// The layouts of these degrees that differ and for which there are devices enough.
    [[nodiscard]] List<PlanLayout> layouts(PlanDegrees const& degrees) {
        List<PlanLayout> all;
        for (bool const is_strongest_first : {false, true}) {
            if (is_strongest_first && is_uniform()) break;
            std::int64_t previous = 0;
            for (auto const aligned : {std::int64_t{1}, degrees.tp, degrees.tp * degrees.ep}) {
                if (aligned == previous || (aligned > 1 && !differs(aligned, is_strongest_first))) continue;
                previous = aligned;
                PlanLayout layout{false, is_strongest_first, aligned};
                if (static_cast<std::int64_t>(sequence(layout).size()) < degrees.ranks()) continue;
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
        return sequence(layout)[static_cast<std::size_t>(first_of(place.pp, place.dp, degrees, layout) +
                                                         place.ep * degrees.tp + place.tp)];
    }

    [[nodiscard]] PlanSites sites(PlanDegrees const& degrees, PlanLayout const& layout) {
        PlanSites sites;
        auto const& order = sequence(layout);
        auto const group = degrees.tp * degrees.ep;
        auto const replica_step = first_of(0, 1, degrees, layout);
        sites.weakest.reserve(static_cast<std::size_t>(degrees.pp));
        // Where groups and nodes divide each other, one group of a kind stands for all.
        bool const is_tp_regular = is_regular(layout, degrees.tp);
        bool const is_group_regular = is_tp_regular && is_regular(layout, group);
        bool const is_stage_regular =
            is_group_regular && !layout.is_replica_outermost && is_regular(layout, group * degrees.dp);
        for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
            StageSite site;
            auto capacity = Bytes{INT64_MAX};
            site.tp.ranks = site.ep.ranks = site.dp.ranks = 0;
            if (stage > 0 && is_stage_regular) {
                site = sites.stages[0];
                site.next = {};
                capacity = sites.capacities[0];
            }
            for (std::int64_t replica = 0; replica < degrees.dp; ++replica) {
                auto const first = first_of(stage, replica, degrees, layout);
                for (std::int64_t k = 0;
                     k < degrees.ep && (!is_tp_regular || stage + replica + k == 0 || site.tp.ranks == 0); ++k)
                    widen(site.tp, group_of(order, first + k * degrees.tp, 1, degrees.tp));
                for (std::int64_t k = 0;
                     k < degrees.tp && (!is_group_regular || stage + replica == 0 || site.ep.ranks == 0); ++k)
                    widen(site.ep, group_of(order, first + k, degrees.tp, degrees.ep));
                for (std::int64_t k = 0; k < group && (!is_uniform() || k + replica == 0); ++k) {
                    auto const& own = device(order[static_cast<std::size_t>(first + k)]);
                    if (own.available() < capacity) capacity = own.available();
                    add_device(sites, site, order[static_cast<std::size_t>(first + k)]);
                }
                for (std::int64_t k = 0; k < (is_group_regular ? 1 : group) && stage + 1 < degrees.pp; ++k) {
                    auto const next = first_of(stage + 1, replica, degrees, layout);
                    site.next = detail::slower_link(site.next, link(order[static_cast<std::size_t>(first + k)],
                                                                    order[static_cast<std::size_t>(next + k)]));
                }
            }
            auto const first = first_of(stage, 0, degrees, layout);
            for (std::int64_t k = 0; k < group && (stage == 0 || !is_stage_regular); ++k)
                widen(site.dp, group_of(order, first + k, replica_step, degrees.dp));
            if (stage > 0)
                sites.are_alike = sites.are_alike && is_alike(site, sites.stages[0]) && capacity == sites.capacities[0];
            sites.stages.push_back(site);
            sites.capacities.push_back(capacity);
        }
        return sites;
    }

    /// A site that none of a tensor- and expert-parallel group can be better than.
    [[nodiscard]] StageSite best_site(std::int64_t tp, std::int64_t ep) const {
        return best_site(tp, ep, classes_.strongest(), classes_.best_link(), classes_.best_network());
    }
    /// The same of groups with a device of this class.
    [[nodiscard]] StageSite best_site(std::int64_t tp, std::int64_t ep, std::size_t index) const {
        auto const& own = classes_.device(index);
        if (own.link.type == LinkType::none)
            return best_site(tp, ep, own, classes_.best_link(), classes_.best_network());
        return best_site(tp, ep, own, own.link, DeviceClasses::network_of(own));
    }

private:
    struct Neighbour {
        std::int32_t device = 0;
        Link link{};
    };
    /// Ranks of the group that is being looked at.
    struct NodeCount {
        std::int64_t stamp = 0;
        std::int64_t ranks = 0;
    };
    struct Sequence {
        bool is_strongest_first = false;
        std::int64_t aligned = 1;
        List<std::int32_t> devices;
        /// Where runs of devices of one class end.
        List<std::int64_t> runs;
    };

    StageSite best_site(std::int64_t tp, std::int64_t ep, Device const& device, Link link,
                        Link const& known_network) const {
        StageSite site;
        site.device = &device;
        auto const network = detail::faster_link(known_network, classes_.best_explicit());
        link = detail::faster_link(link, classes_.best_explicit());
        bool const is_network_worse = network.bandwidth <= link.bandwidth && network.latency >= link.latency;
        if (!is_network_worse && node_count() > 1) link = detail::faster_link(link, network);
        auto const node = is_network_worse ? largest_node_ : count();
        auto const in_node = [&](std::int64_t ranks, std::int64_t stride) {
            auto const most = ranks * stride <= node ? ranks : node / stride > 0 ? node / stride : 1;
            auto const nodes = most < ranks ? (ranks + most - 1) / most : 1;
            return RankGroup{ranks, (ranks + nodes - 1) / nodes, link, network};
        };
        site.tp = in_node(tp, 1);
        site.ep = in_node(ep, tp);
        site.next = detail::faster_link(link, node_count() > 1 ? network : Link{});
        return site;
    }

    /// True where aligning to groups of so many leaves other devices idle, and some group fits a node.
    bool differs(std::int64_t aligned, bool is_strongest_first) {
        if (aligned > largest_node_) return false;
        (void)sequence({false, is_strongest_first, 1});
        auto const& own = sequence({false, is_strongest_first, aligned});
        auto const& plain = sequence({false, is_strongest_first, 1});
        for (std::size_t i = 0; i < own.size(); ++i) {
            if (own[i] != plain[i]) return true;
        }
        return false;
    }

    List<std::int64_t> const& runs_of(PlanLayout const& layout) {
        (void)sequence(layout);
        for (auto& known : sequences_) {
            if (known.aligned != layout.aligned || known.is_strongest_first != layout.is_strongest_first) continue;
            for (std::size_t i = known.runs.empty() ? 1 : known.devices.size() + 1; i <= known.devices.size(); ++i) {
                auto const at = [&](std::size_t k) { return classes_.of(known.devices[k]); };
                if (i == known.devices.size() || at(i) != at(i - 1)) known.runs.push_back(static_cast<std::int64_t>(i));
            }
            return known.runs;
        }
        return sequences_[0].runs;
    }

    List<std::int32_t> const& sequence(PlanLayout const& layout) {
        for (auto i = sequences_.size(); i-- > 0;) {
            auto const& known = sequences_[i];
            if (known.aligned == layout.aligned && known.is_strongest_first == layout.is_strongest_first)
                return known.devices;
        }
        List<std::int32_t> order;
        if (layout.aligned > 1) {
            order =
                aligned_sequence(List<std::int32_t>{sequence({false, layout.is_strongest_first, 1})}, layout.aligned);
        } else if (!layout.is_strongest_first) {
            for (std::int32_t i = 0; i < static_cast<std::int32_t>(devices_.size()); ++i) order.push_back(i);
        } else {
            List<std::size_t> classes;
            for (std::size_t i = 0; i < classes_.count(); ++i) {
                auto place = classes.size();
                while (place > 0 && classes_.is_stronger(i, classes[place - 1])) --place;
                (void)classes.insert(classes.begin() + place, i);
            }
            for (auto const id : classes) {
                for (std::size_t i = 0; i < devices_.size(); ++i) {
                    if (classes_.of(static_cast<std::int32_t>(i)) == id) order.push_back(static_cast<std::int32_t>(i));
                }
            }
        }
        sequences_.push_back({layout.is_strongest_first, layout.aligned, static_cast<List<std::int32_t>&&>(order), {}});
        return sequences_.back().devices;
    }

    List<std::int32_t> aligned_sequence(List<std::int32_t> const& plain, std::int64_t aligned) const {
        List<std::int32_t> order;
        auto const size = static_cast<std::size_t>(aligned);
        for (std::size_t i = 0; i + size <= plain.size();) {
            std::size_t run = 1;
            while (run < size && node_at(plain[i + run]) == node_at(plain[i])) ++run;
            if (run == size) order.append(plain.begin() + i, plain.begin() + i + run);
            i += run;
        }
        return order;
    }

    std::size_t node_at(std::int32_t device) const { return node_of_[static_cast<std::size_t>(device)]; }

    /// True where blocks of so many ranks all lie alike: like devices, nodes of one size, and one a multiple of the
    /// other.
    bool is_regular(PlanLayout const& layout, std::int64_t block) const {
        if (!has_like_nodes_ || layout.aligned > 1) return false;
        return block % largest_node_ == 0 || largest_node_ % block == 0;
    }

    static std::int64_t first_of(std::int64_t stage, std::int64_t replica, PlanDegrees const& degrees,
                                 PlanLayout const& layout) {
        auto const slot = layout.is_replica_outermost ? replica * degrees.pp + stage : stage * degrees.dp + replica;
        return slot * degrees.tp * degrees.ep;
    }

    Link link(std::int32_t a, std::int32_t b) const {
        if (!neighbours_.empty()) {
            for (auto const& known : neighbours_[static_cast<std::size_t>(a)]) {
                if (known.device == b) return known.link;
            }
        }
        auto const& one = device(a);
        auto const& other = device(b);
        if (one.node == other.node) return detail::slower_link(one.link, other.link);
        return detail::slower_link(DeviceClasses::network_of(one), DeviceClasses::network_of(other));
    }
    /// The group of `count` ranks, every stride-th from `first`.
    RankGroup group_of(List<std::int32_t> const& order, std::int64_t first, std::int64_t stride, std::int64_t count) {
        RankGroup group{count, count, {}, {}};
        if (count <= 1) return group;
        auto const at = [&](std::int64_t k) { return order[static_cast<std::size_t>(first + k * stride)]; };
        ++stamp_;
        std::int64_t nodes = 0;
        for (std::int64_t k = 0; k < count; ++k) {
            auto& node = seen_[node_at(at(k))];
            if (node.stamp != stamp_) {
                node = {stamp_, 0};
                ++nodes;
            }
            ++node.ranks;
        }
        group.per_node = (count + nodes - 1) / nodes;
        if (!neighbours_.empty()) {
            for (std::int64_t i = 0; i < count; ++i) {
                for (std::int64_t k = i + 1; k < count; ++k) {
                    auto& slowest = node_at(at(i)) == node_at(at(k)) ? group.link : group.network;
                    slowest = detail::slower_link(slowest, link(at(i), at(k)));
                }
            }
            return group;
        }
        for (std::int64_t k = 0; k < (is_uniform() ? 1 : count); ++k) {
            auto const& own = device(at(k));
            bool const has_peer = is_uniform() ? nodes < count : seen_[node_at(at(k))].ranks > 1;
            if (has_peer) group.link = detail::slower_link(group.link, own.link);
            if (nodes > 1) group.network = detail::slower_link(group.network, DeviceClasses::network_of(own));
        }
        return group;
    }

    /// The worse of two groups of one kind.
    static void widen(RankGroup& worst, RankGroup const& group) {
        if (worst.ranks == 0) {
            worst = group;
            return;
        }
        if (group.per_node < worst.per_node) worst.per_node = group.per_node;
        worst.link = detail::slower_link(worst.link, group.link);
        worst.network = detail::slower_link(worst.network, group.network);
    }

    void add_device(PlanSites& sites, StageSite& site, std::int32_t position) const {
        auto const& own = classes_.device(classes_.of(position));
        if (site.device == nullptr) site.device = &own;
        if (&own == site.device || detail::is_no_worse(own, *site.device)) return;
        auto const mixed = detail::mixed_device(*site.device, own, false);
        bool const is_new = sites.weakest.empty() || site.device != &sites.weakest.back();
        if (is_new)
            sites.weakest.push_back(mixed);
        else
            sites.weakest.back() = mixed;
        site.device = &sites.weakest.back();
    }

    static bool is_alike(StageSite const& a, StageSite const& b) {
        return a.device == b.device && a.tp == b.tp && a.ep == b.ep && a.dp == b.dp;
    }

    std::span<Device const> devices_;
    DeviceClasses classes_;
    List<List<Neighbour>> neighbours_;
    List<std::size_t> node_of_;
    List<NodeCount> seen_;
    List<Sequence> sequences_;
    std::int64_t largest_node_ = 0;
    /// All devices alike, nodes of one size and one after another.
    bool has_like_nodes_ = false;
    std::int64_t stamp_ = 0;
};

}  // namespace shardwise::inline v0_2_0
