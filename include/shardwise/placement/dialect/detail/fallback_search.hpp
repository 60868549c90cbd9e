// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/placement/dialect/detail/module_queue.hpp>
#include <shardwise/placement/dialect/detail/size_table.hpp>
#include <shardwise/placement/dialect/detail/tie_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Looks through the queue, depth first, for the first entry that fits with what is tied to it.
class FallbackSearch {
public:
    using Index = ExpandedTree::Index;
    using Slot = ModuleQueue::Slot;

    struct Found {
        TreeEntry entry;
        Slot slot;
    };

    FallbackSearch(ExpandedTree const& tree, SizeTable const& sizes, std::vector<char> const& is_whole, TieTable& ties)
        : tree_(tree), sizes_(sizes), is_whole_(is_whole), ties_(ties) {}

    /// The first entry that takes at most `limit` bits, and the queued module that it is or lies in.
    std::optional<Found> find(ModuleQueue const& queue, std::int64_t limit) {
        if (limit < 0) return std::nullopt;
        if (!ties_.empty()) state_.assign(tree_.module_count(), State::unseen);
        for (auto slot = queue.first(); slot != ModuleQueue::no_slot; slot = queue.next(slot)) {
            pending_.assign(1, queue.entry(slot));
            while (!pending_.empty()) {
                auto const entry = pending_.back();
                pending_.pop_back();
                if (!ties_.empty() && entry.is_module()) state_[entry.index()] = State::passed;
                if (size_with_ties(entry, queue) <= limit) return Found{entry, slot};
                if (entry.is_module()) push_parts(entry.index());
            }
        }
        return std::nullopt;
    }
    /// True where accelerate would have raised an exception.
    [[nodiscard]] bool is_repaired() const { return is_repaired_; }

private:
    enum class State : std::uint8_t { unseen, pending, passed };

    void push_parts(Index module) {
        if (!tree_.has_children(module) || is_whole_[tree_.class_id(module)] != 0) return;
        auto const begin = pending_.size();
        for (auto i = tree_.first_tensor(module); i < tree_.own_end(module); ++i) {
            if (tree_.tensor(i).is_parameter()) pending_.push_back(TreeEntry::tensor(i));
        }
        for (auto child = module + 1; child < tree_.end(module); child = tree_.end(child)) {
            pending_.push_back(TreeEntry::module(child));
            if (!ties_.empty()) state_[child] = State::pending;
        }
        std::reverse(pending_.begin() + static_cast<std::ptrdiff_t>(begin), pending_.end());
    }

    std::int64_t size_with_ties(TreeEntry entry, ModuleQueue const& queue) {
        auto size = entry.is_tensor() ? sizes_.of_tensor(entry.index()) : sizes_.of_module(entry.index());
        ties_.find_outside(entry, outside_);
        for (auto const tensor : outside_) {
            bool is_found = false;
            for (auto at = tree_.owner(tensor); at != ExpandedTree::none && !is_found; at = tree_.parent(at)) {
                bool const is_queued = queue.slot_of(at) != ModuleQueue::no_slot && state_[at] != State::passed;
                if (!is_queued && state_[at] != State::pending) continue;
                size += sizes_.of_module(at) - sizes_.of_tensor(tensor);
                is_found = true;
            }
            is_repaired_ = is_repaired_ || !is_found;
        }
        return size;
    }

    ExpandedTree const& tree_;
    SizeTable const& sizes_;
    std::vector<char> const& is_whole_;
    TieTable& ties_;
    std::vector<TreeEntry> pending_;
    std::vector<State> state_;
    std::vector<Index> outside_;
    bool is_repaired_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
