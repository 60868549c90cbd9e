// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/deterministic_sum.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/split.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The nodes of the tree of comm/deterministic_sum.hpp that the leaves of a range so far make up, in order, as a binary counter carries.
struct LeafCounter {
    LeafCounter(UnitRange of, std::int64_t all) : range(of), leaves(all), next(of.begin) {}

    /// Whether the next `count` leaves are one node that the rank owns.
    [[nodiscard]] bool is_node(std::int64_t count) const {
        if (count < 1 || count > range.end - next) return false;
        auto const size = sum_root(count).size;
        return next % size == 0 && (size == count || next + count == leaves);
    }
    void push(std::int64_t count) {
        nodes.push_back({next, sum_root(count).size});
        next += count;
    }
    /// Whether the last two nodes are the halves of one that the rank owns: of equal size, or after the last leaf of the batch.
    [[nodiscard]] bool carries() const {
        if (nodes.size() < 2) return false;
        auto const& left = nodes[nodes.size() - 2];
        auto const& right = nodes.back();
        bool const is_half = left.begin % (2 * left.size) == 0 && left.begin + left.size == right.begin;
        return is_half && (left.size == right.size || next == leaves);
    }
    void carry() {
        nodes.pop_back();
        nodes.back().size *= 2;
    }

    /// Sums that there are at a time, the leaf that is being computed included.
    [[nodiscard]] static std::int64_t buffers(UnitRange range, std::int64_t leaves) {
        LeafCounter counter(range, leaves);
        std::int64_t most = 0;
        for (std::int64_t leaf = range.begin; leaf < range.end; ++leaf) {
            most = std::max(most, static_cast<std::int64_t>(counter.nodes.size()) + 1);
            counter.push(1);
            while (counter.carries()) counter.carry();
        }
        return most;
    }

    UnitRange range;
    std::int64_t leaves;
    std::int64_t next;
    List<SumNode> nodes;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
