// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/deterministic_sum.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/split.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// One step of a sum: a leaf is computed into a slot, or a slot is added to another (left + right, into the left).
struct TreeStep {
    static constexpr std::int64_t no_leaf = -1;

    /// no_leaf: slots[to] += slots[from].
    std::int64_t leaf = no_leaf;
    std::int64_t to = 0;
    std::int64_t from = 0;
};

/// How one rank takes part in a sum over a fixed tree (comm/deterministic_sum.hpp), made once: what it computes before the ranks
/// exchange the sums of their nodes, and how the sums of all nodes become the root's.
///
/// Slots hold one summand each. Slots [0, nodes) are the nodes of all ranks in order; slots after them are scratch.
class TreePlan {
public:
    TreePlan() = default;
    TreePlan(std::int64_t leaves, std::int64_t ranks, std::int64_t rank) {
        List<SumNode> all;
        List<SumNode> own;
        for (std::int64_t each = 0; each < ranks; ++each) {
            auto const theirs = sum_nodes(split_units(leaves, ranks, each), leaves);
            if (each == rank) {
                own = theirs;
                first_own_ = static_cast<std::int64_t>(all.size());
            }
            all.append(theirs.begin(), theirs.end());
            counts_.push_back(static_cast<std::int64_t>(theirs.size()));
        }
        nodes_ = static_cast<std::int64_t>(all.size());
        for (std::size_t i = 0; i < own.size(); ++i)
            compute(own[i], leaves, first_own_ + static_cast<std::int64_t>(i), 0);
        if (leaves > 0) merge(sum_root(leaves), leaves, all);
    }

    /// The nodes of each rank, their sum, and where this rank's begin.
    [[nodiscard]] List<std::int64_t> const& counts() const { return counts_; }
    [[nodiscard]] std::int64_t nodes() const { return nodes_; }
    [[nodiscard]] std::int64_t first_own() const { return first_own_; }
    [[nodiscard]] std::int64_t own() const { return own_; }
    /// Slots beside those of the nodes.
    [[nodiscard]] std::int64_t scratch() const { return scratch_; }
    /// What this rank does before the exchange, and every rank after it; the root's sum is then in slot 0.
    [[nodiscard]] List<TreeStep> const& before() const { return before_; }
    [[nodiscard]] List<TreeStep> const& after() const { return after_; }

private:
    /// The sum of a node that this rank owns, into a slot.
    void compute(SumNode node, std::int64_t leaves, std::int64_t slot, std::int64_t depth) {
        if (depth == 0) ++own_;
        if (node.size == 1) {
            before_.push_back({node.begin, slot, 0});
            return;
        }
        auto const half = node.size / 2;
        compute({node.begin, half}, leaves, slot, depth + 1);
        if (node.begin + half >= leaves) return;
        auto const right = nodes_ + depth;
        scratch_ = std::max(scratch_, depth + 1);
        compute({node.begin + half, half}, leaves, right, depth + 1);
        before_.push_back({TreeStep::no_leaf, slot, right});
    }

    /// Adds up the known nodes below a node; the slot of its sum.
    std::int64_t merge(SumNode node, std::int64_t leaves, List<SumNode> const& known) {
        for (std::size_t i = 0; i < known.size(); ++i) {
            if (known[i] == node) return static_cast<std::int64_t>(i);
        }
        auto const half = node.size / 2;
        auto const left = merge({node.begin, half}, leaves, known);
        if (node.begin + half < leaves)
            after_.push_back({TreeStep::no_leaf, left, merge({node.begin + half, half}, leaves, known)});
        return left;
    }

    List<std::int64_t> counts_;
    List<TreeStep> before_;
    List<TreeStep> after_;
    std::int64_t nodes_ = 0;
    std::int64_t first_own_ = 0;
    std::int64_t own_ = 0;
    std::int64_t scratch_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
