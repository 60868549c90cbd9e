// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/element.hpp>
#include <shardwise/comm/detail/reduce.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/split.hpp>

#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A node of the summation tree: the leaves [begin, begin + size), size a power of two and begin a multiple of it. Leaves at
/// or beyond the number of leaves do not exist and are left out.
struct SumNode {
    std::int64_t begin = 0;
    std::int64_t size = 1;

    friend constexpr bool operator==(SumNode const&, SumNode const&) = default;
};

/// The largest nodes of the tree over `leaves` leaves that lie wholly in a range, in order: what a rank that owns these
/// leaves can sum by itself without changing any result. At most two per level.
[[nodiscard]] constexpr List<SumNode> sum_nodes(UnitRange range, std::int64_t leaves) {
    List<SumNode> nodes;
    auto begin = range.begin;
    while (begin < range.end) {
        SumNode node{begin, 1};
        // A node may reach beyond the last leaf: there is nothing that another rank could own.
        auto const fits = [&](std::int64_t size) {
            auto const end = begin + size;
            return begin % size == 0 && (end <= range.end || range.end == leaves) &&
                   (size == 1 || begin + size / 2 < leaves);
        };
        while (fits(node.size * 2)) node.size *= 2;
        nodes.push_back(node);
        begin += node.size;
    }
    return nodes;
}

namespace detail {

/// Adds up the tree below a node: `find(node)` is the row of a sum that is known, or null; `add` adds the right row to the left.
template <class T, class Find>
[[nodiscard]] bool sum_below(SumNode node, std::int64_t leaves, std::int64_t width, List<List<T>>& scratch,
                             std::size_t depth, T* out, Find const& find) {
    if (node.begin >= leaves) return false;
    if (auto const* known = find(node)) {
        for (std::int64_t i = 0; i < width; ++i) store_element(out, i, load_element<T>(known, i));
        return true;
    }
    if (node.size == 1) return false;
    auto const half = node.size / 2;
    bool const has_left = sum_below<T>({node.begin, half}, leaves, width, scratch, depth + 1, out, find);
    auto* const right = scratch[depth].data();
    bool const has_right = sum_below<T>({node.begin + half, half}, leaves, width, scratch, depth + 1, right, find);
    if (!has_right) return has_left;
    for (std::int64_t i = 0; i < width; ++i) {
        auto value = right[i];
        if (has_left) {
            value = static_cast<T>(combine<ReduceOp::sum, T>(static_cast<Accumulator<T>>(load_element<T>(out, i)),
                                                             static_cast<Accumulator<T>>(value)));
        }
        store_element(out, i, value);
    }
    return true;
}

}  // namespace detail

/// The smallest tree that holds all leaves.
[[nodiscard]] constexpr SumNode sum_root(std::int64_t leaves) {
    SumNode root{0, 1};
    while (root.size < leaves) root.size *= 2;
    return root;
}

/// Sums one row per leaf over all ranks by a fixed tree over the leaves: the result has the same bits for any number of
/// ranks and any communicator, as long as each rank owns whole leaves in order. The sum of a node is (left + right), rounded
/// to T; a node whose right half has no leaf is its left half.
///
/// Each rank brings the sums of its `sum_nodes`, made by the same rule (`sum_leaves`), and not of its leaves: at most
/// 2 log2(leaves) rows travel per rank.
///
/// Shapes  own [nodes of this rank, width] row-major; out [width]; `owners[r]` is rank r's range of leaves: in order, without
///         gaps, from 0 to the number of leaves; a range may be empty
/// Errors  shape_mismatch; collective_mismatch, rank_lost, deadline_exceeded
template <class T, Communicator C>
[[nodiscard]] Result<> deterministic_sum(C& comm, std::span<UnitRange const> owners, TensorView<T const, 1, Host> own,
                                         TensorView<T, 1, Host> out) {
    if (auto const known = check_views("deterministic_sum", own, out); !known) return known;
    auto const width = out.elements();
    auto const ranks = static_cast<std::size_t>(comm.size());
    Error differs{ErrorCode::shape_mismatch};
    differs.in("deterministic_sum");
    if (owners.size() != ranks)
        return differs.because("needs one range of leaves per rank")
            .got(static_cast<std::int64_t>(owners.size()))
            .expected(comm.size());
    std::int64_t leaves = 0;
    for (auto const& range : owners) {
        if (range.begin != leaves || range.end < range.begin)
            return differs.because("the ranges of leaves have gaps or overlap").got(range.begin).expected(leaves);
        leaves = range.end;
    }
    List<std::int64_t> counts;
    List<SumNode> nodes;
    std::int64_t rows = 0;
    for (auto const& range : owners) {
        auto const theirs = sum_nodes(range, leaves);
        nodes.append(theirs.begin(), theirs.end());
        counts.push_back(static_cast<std::int64_t>(theirs.size()) * width);
        rows += static_cast<std::int64_t>(theirs.size());
    }
    if (own.elements() != counts[static_cast<std::size_t>(comm.rank())]) {
        return differs.because("the rank brings another number of sums than its leaves have nodes")
            .got(own.elements())
            .expected(counts[static_cast<std::size_t>(comm.rank())]);
    }
    List<T> all(static_cast<std::size_t>(rows * width));
    auto const gathered = all_gather(comm, own, TensorView<T, 1, Host>{all.data(), {rows * width}},
                                     std::span<std::int64_t const>{counts});
    if (!gathered) return gathered;
    auto const find = [&](SumNode node) -> T const* {
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            if (nodes[i] == node) return all.data() + static_cast<std::int64_t>(i) * width;
        }
        return nullptr;
    };
    List<List<T>> scratch(64, List<T>(static_cast<std::size_t>(width)));
    if (!detail::sum_below<T>(sum_root(leaves), leaves, width, scratch, 0, out.data(), find)) {
        for (std::int64_t i = 0; i < width; ++i) detail::store_element(out.data(), i, T{});
    }
    return {};
}

/// The sums of a rank's nodes from its leaves, by the tree's rule: what deterministic_sum takes.
///
/// Shapes  leaf_rows [range.size(), width], sums [sum_nodes(range, leaves).size(), width]; row-major
template <class T>
void sum_leaves(UnitRange range, std::int64_t leaves, std::int64_t width, T const* leaf_rows, T* sums) {
    auto const find = [&](SumNode node) -> T const* {
        return node.size == 1 ? leaf_rows + (node.begin - range.begin) * width : nullptr;
    };
    List<List<T>> scratch(64, List<T>(static_cast<std::size_t>(width)));
    for (auto const& node : sum_nodes(range, leaves)) {
        (void)detail::sum_below<T>(node, leaves, width, scratch, 0, sums, find);
        sums += width;
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
