// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/device_wiring.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Values at the places of a row, of which neighbours are often equal: each different value once.
template <class T>
class ValueRuns {
public:
    void reserve(std::size_t places) { value_of_.reserve(places); }
    /// The value at the next place.
    void push_back(T const& value) {
        std::size_t index = value_of_.empty() ? values_.size() : value_of_.back();
        if (index == values_.size() || !(values_[index] == value)) {
            index = 0;
            while (index < values_.size() && !(values_[index] == value)) ++index;
            if (index == values_.size()) values_.push_back(value);
        }
        value_of_.push_back(static_cast<std::uint32_t>(index));
    }
    /// Finds the runs; before the first question.
    void finish() {
        ends_.resize(value_of_.size());
        for (auto place = value_of_.size(); place-- > 0;) {
            bool const is_last = place + 1 == value_of_.size() || value_of_[place + 1] != value_of_[place];
            ends_[place] = is_last ? static_cast<std::uint32_t>(place + 1) : ends_[place + 1];
        }
    }

    /// Calls `visit` with the value of each run between two places, in order.
    template <class Visit>
    void for_each(std::int64_t begin, std::int64_t end, Visit const& visit) const {
        for (auto place = static_cast<std::size_t>(begin); place < static_cast<std::size_t>(end); place = ends_[place])
            visit(values_[value_of_[place]]);
    }
    /// True where one value stands at all places from 0 to `end`.
    [[nodiscard]] bool is_one_until(std::int64_t end) const {
        return end > 0 && static_cast<std::int64_t>(ends_[0]) >= end;
    }

private:
    List<T> values_;
    List<std::uint32_t> value_of_;
    /// Where the run of each place ends.
    List<std::uint32_t> ends_;
};

/// Devices in the order in which a layout fills them, with what groups of ranks find there: each kind of groups is
/// looked at once.
class DeviceOrder {
public:
    DeviceOrder() = default;
    DeviceOrder(DeviceWiring const& wiring, List<std::int32_t> devices)
        : wiring_(&wiring), devices_(static_cast<List<std::int32_t>&&>(devices)), seen_(wiring.node_count()) {
        classes_.reserve(devices_.size());
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            classes_.push_back(wiring.classes().of(devices_[i]));
            if (i > 0 && (wiring.has_named_links() || !are_alike(devices_[i], devices_[i - 1])))
                changes_.push_back(static_cast<std::int64_t>(i));
        }
        classes_.finish();
    }

    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(devices_.size()); }
    [[nodiscard]] List<std::int32_t> const& devices() const { return devices_; }
    [[nodiscard]] std::int32_t device(std::int64_t place) const { return devices_[static_cast<std::size_t>(place)]; }
    /// The class of the device at each place.
    [[nodiscard]] ValueRuns<std::size_t> const& classes() const { return classes_; }

    /// The groups of `count` ranks, every stride-th of a block of stride * count places: the worst of each `slice`
    /// groups that begin side by side. Valid until the order goes.
    [[nodiscard]] ValueRuns<RankGroup> const& groups(std::int64_t stride, std::int64_t count, std::int64_t slice) {
        return find(groups_, {stride, count, slice}, [&](ValueRuns<RankGroup>& found) {
            auto const block = stride * count;
            is_start_.resize(static_cast<std::size_t>(stride));
            std::size_t change = 0;
            for (std::int64_t first = 0; first + block <= size(); first += block) {
                find_starts(first, block, stride, change);
                for (std::int64_t k = 0; k < stride; k += slice)
                    found.push_back(worst_of(first, k, k + slice, stride, count));
            }
        });
    }

    /// The link from the device at each place to that `distance` places on.
    [[nodiscard]] ValueRuns<Link> const& links(std::int64_t distance) {
        return find(links_, {distance, 0, 0}, [&](ValueRuns<Link>& found) {
            std::size_t here = 0;
            std::size_t there = 0;
            Link link;
            auto const is_change = [&](std::size_t& next, std::int64_t place) {
                while (next < changes_.size() && changes_[next] < place) ++next;
                return next < changes_.size() && changes_[next] == place;
            };
            for (std::int64_t place = 0; place + distance < size(); ++place) {
                bool const is_new = is_change(here, place);
                if (is_change(there, place + distance) || is_new || place == 0)
                    link = wiring_->link(device(place), device(place + distance));
                found.push_back(link);
            }
        });
    }

private:
    struct Key {
        std::int64_t stride = 0;
        std::int64_t count = 0;
        std::int64_t slice = 0;

        friend bool operator==(Key const&, Key const&) = default;
    };
    /// What was found, by what was asked for. Nothing moves that has been found.
    template <class T>
    struct Found {
        struct Entry {
            Key key{};
            ValueRuns<T> const* runs = nullptr;
        };
        List<List<Entry>> buckets;
        List<List<ValueRuns<T>>> chunks;
    };
    /// Ranks of the group that is being looked at.
    struct NodeCount {
        std::int64_t stamp = 0;
        std::int64_t ranks = 0;
    };
    static constexpr std::size_t bucket_count = 512;
    static constexpr std::size_t chunk = 64;

    template <class T, class Make>
    static ValueRuns<T> const& find(Found<T>& found, Key const& key, Make const& make) {
        if (found.buckets.empty()) found.buckets.resize(bucket_count);
        auto const hash = static_cast<std::size_t>(key.stride * 37 + key.count * 101 + key.slice);
        auto& bucket = found.buckets[hash % bucket_count];
        for (auto const& known : bucket) {
            if (known.key == key) return *known.runs;
        }
        if (found.chunks.empty() || found.chunks.back().size() == chunk) {
            found.chunks.push_back({});
            found.chunks.back().reserve(chunk);
        }
        found.chunks.back().push_back({});
        auto& runs = found.chunks.back().back();
        make(runs);
        runs.finish();
        bucket.push_back({key, &runs});
        return runs;
    }

    bool are_alike(std::int32_t a, std::int32_t b) const {
        return wiring_->node_of(a) == wiring_->node_of(b) && wiring_->classes().of(a) == wiring_->classes().of(b);
    }

    /// Marks where a group begins that differs from the one before it: some of its ranks are the first ones of a node
    /// or a class.
    void find_starts(std::int64_t first, std::int64_t block, std::int64_t stride, std::size_t& change) {
        for (auto& is_start : is_start_) is_start = false;
        for (; change < changes_.size() && changes_[change] < first + block; ++change)
            is_start_[static_cast<std::size_t>((changes_[change] - first) % stride)] = true;
    }

    RankGroup worst_of(std::int64_t first, std::int64_t begin, std::int64_t end, std::int64_t stride,
                       std::int64_t count) {
        auto worst = group_at(first + begin, stride, count);
        for (auto k = begin + 1; k < end; ++k) {
            if (!is_start_[static_cast<std::size_t>(k)]) continue;
            widen(worst, group_at(first + k, stride, count));
        }
        return worst;
    }

    RankGroup group_at(std::int64_t first, std::int64_t stride, std::int64_t count) {
        RankGroup group{count, count, {}, {}};
        if (count <= 1) return group;
        auto const at = [&](std::int64_t k) { return device(first + k * stride); };
        ++stamp_;
        std::int64_t nodes = 0;
        for (std::int64_t k = 0; k < count; ++k) {
            auto& node = seen_[wiring_->node_of(at(k))];
            if (node.stamp != stamp_) {
                node = {stamp_, 0};
                ++nodes;
            }
            ++node.ranks;
        }
        group.per_node = (count + nodes - 1) / nodes;
        if (wiring_->has_named_links()) {
            for (std::int64_t i = 0; i < count; ++i) {
                for (std::int64_t k = i + 1; k < count; ++k) {
                    bool const is_inside = wiring_->node_of(at(i)) == wiring_->node_of(at(k));
                    auto& slowest = is_inside ? group.link : group.network;
                    slowest = detail::slower_link(slowest, wiring_->link(at(i), at(k)));
                }
            }
            return group;
        }
        for (std::int64_t k = 0; k < count; ++k) {
            auto const position = at(k);
            auto const& own = wiring_->classes().device(wiring_->classes().of(position));
            if (seen_[wiring_->node_of(position)].ranks > 1) group.link = detail::slower_link(group.link, own.link);
            if (nodes > 1) group.network = detail::slower_link(group.network, DeviceClasses::network_of(own));
        }
        return group;
    }

public:
    /// Makes of `worst` the worse of two groups of one kind.
    static void widen(RankGroup& worst, RankGroup const& group) {
        if (worst.ranks == 0) {
            worst = group;
            return;
        }
        if (group.per_node < worst.per_node) worst.per_node = group.per_node;
        worst.link = detail::slower_link(worst.link, group.link);
        worst.network = detail::slower_link(worst.network, group.network);
    }

private:
    DeviceWiring const* wiring_ = nullptr;
    List<std::int32_t> devices_;
    ValueRuns<std::size_t> classes_;
    /// The places whose device is unlike the one before.
    List<std::int64_t> changes_;
    List<NodeCount> seen_;
    List<bool> is_start_;
    Found<RankGroup> groups_;
    Found<Link> links_;
    std::int64_t stamp_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
