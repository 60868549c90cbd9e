// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/plan/device_order.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Classes, as bits: those of which a stage's first device is one, and those of which its last one is.
struct StageReach {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
};

/// On which classes of devices stages may lie in one order of the devices, whatever leaves gaps in it and whether
/// replicas stand inside stages or around them. Of at most 64 classes.
///
/// A layout never puts a device before its place in the order: stage i has a device from the ((i + 1) * ranks)-th on,
/// which is its last one where nothing is left out. And none stands further behind its place than devices are left out
/// before it: stage i has one of the first i * ranks + 1 and those.
class OrderReach {
public:
    OrderReach() = default;
    OrderReach(DeviceOrder const& order, DeviceWiring const& wiring) : largest_node_(wiring.largest_node()) {
        auto const count = static_cast<std::size_t>(order.size());
        for (auto const device : order.devices()) until_.push_back(std::uint64_t{1} << wiring.classes().of(device));
        from_ = until_;
        for (std::size_t place = 1; place < count; ++place) until_[place] |= until_[place - 1];
        for (auto place = count; place-- > 1;) from_[place - 1] |= from_[place];
        for (std::size_t place = 0; place < count; ++place) {
            auto const node = [&](std::size_t at) { return wiring.node_of(order.devices()[at]); };
            if (place == 0 || node(place) != node(place - 1)) runs_.push_back(0);
            ++runs_.back();
        }
    }

    /// How many devices a layout leaves out at most that keeps groups of these sizes within nodes.
    [[nodiscard]] std::int64_t left_out(std::int64_t tp, std::int64_t ep) const {
        auto const by_tensor = left_out(tp);
        auto const by_group = left_out(tp * ep);
        return by_tensor < by_group ? by_group : by_tensor;
    }
    /// `ranks` are those of a stage.
    [[nodiscard]] StageReach of(std::int64_t stage, std::int64_t ranks, std::int64_t left_out) const {
        auto const last = from_.size() - 1;
        auto const first_end = static_cast<std::size_t>(stage * ranks + left_out);
        auto const begin = static_cast<std::size_t>((stage + 1) * ranks - 1);
        return {until_[first_end < last ? first_end : last], from_[begin < last ? begin : last]};
    }

private:
    std::int64_t left_out(std::int64_t size) const {
        std::int64_t out = 0;
        if (size > largest_node_) return out;
        for (auto const run : runs_) out += run % size;
        return out;
    }

    std::int64_t largest_node_ = 0;
    /// The classes of the devices until each place, and from it on.
    List<std::uint64_t> until_;
    List<std::uint64_t> from_;
    /// The devices of a node that stand side by side.
    List<std::int64_t> runs_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
