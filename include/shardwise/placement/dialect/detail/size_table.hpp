// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/stable_sort.hpp>
#include <shardwise/model/expanded_tree.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A tensor whose size a dtype table does not give.
using SizeException = std::pair<ExpandedTree::Index, std::int64_t>;

/// The bits of one element by dtype.
using WidthTable = std::array<std::int64_t, dtype_table.size()>;

/// The sizes of all subtrees as prefix sums over tensors. Dialects price a bool at a bit and may place half bytes,
/// hence bits.
///
/// Units  bits
class SizeTable {
public:
    using Index = ExpandedTree::Index;

    /// `exceptions` win over `widths`; duplicates of tied tensors take nothing whatever either says.
    SizeTable(ExpandedTree const& tree, WidthTable const& widths, std::vector<SizeException> exceptions)
        : tree_(&tree) {
        for (auto const tensor : tree.duplicates()) exceptions.emplace_back(tensor, 0);
        // The stable order puts a duplicate's zero after what else is said of it, and the last one counts.
        detail::stable_sort(exceptions.begin(), exceptions.end(),
                            [](auto const& a, auto const& b) { return a.first < b.first; });
        auto const elements = tree.elements();
        auto const dtypes = tree.dtypes();
        auto const count = tree.tensor_count();
        before_.resize(std::size_t{count} + 1);
        std::int64_t total = 0;
        Index at = 0;
        auto const add_plain = [&](Index end) {
            for (; at < end; ++at) {
                before_[at] = total;
                total += elements[at] * widths[static_cast<std::size_t>(dtypes[at])];
            }
        };
        for (std::size_t i = 0; i < exceptions.size(); ++i) {
            if (i + 1 < exceptions.size() && exceptions[i + 1].first == exceptions[i].first) continue;
            add_plain(exceptions[i].first);
            before_[at++] = total;
            total += exceptions[i].second;
        }
        add_plain(count);
        before_[count] = total;
    }

    [[nodiscard]] std::int64_t of_tensor(Index tensor) const { return before_[tensor + 1] - before_[tensor]; }
    [[nodiscard]] std::int64_t of_module(Index module) const {
        return before_[tree_->subtree_end(module)] - before_[tree_->first_tensor(module)];
    }
    [[nodiscard]] std::int64_t of_own_tensors(Index module) const {
        return before_[tree_->own_end(module)] - before_[tree_->first_tensor(module)];
    }
    [[nodiscard]] std::int64_t total() const { return before_.back(); }

private:
    ExpandedTree const* tree_;
    std::vector<std::int64_t> before_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
