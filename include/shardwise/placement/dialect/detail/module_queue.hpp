// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/expanded_tree.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A module or a tensor of an expanded tree: what a device map may name.
class TreeEntry {
public:
    using Index = ExpandedTree::Index;

    [[nodiscard]] static TreeEntry module(Index index) { return TreeEntry{index, false}; }
    [[nodiscard]] static TreeEntry tensor(Index index) { return TreeEntry{index, true}; }

    [[nodiscard]] bool is_tensor() const { return is_tensor_; }
    [[nodiscard]] bool is_module() const { return !is_tensor_; }
    [[nodiscard]] Index index() const { return index_; }

    friend bool operator==(TreeEntry const& a, TreeEntry const& b) {
        return a.index_ == b.index_ && a.is_tensor_ == b.is_tensor_;
    }

private:
    TreeEntry(Index index, bool is_tensor) : index_(index), is_tensor_(is_tensor) {}

    Index index_;
    bool is_tensor_;
};

/// What still needs a place: a linked list of entries, so that one in the middle can be taken out or replaced by its
/// parts.
///
/// Order  registration order, but for what was put back at the front
class ModuleQueue {
public:
    using Index = ExpandedTree::Index;
    using Slot = std::uint32_t;
    static constexpr Slot no_slot = UINT32_MAX;

    explicit ModuleQueue(ExpandedTree const& tree) : tree_(tree), slot_of_module_(tree.module_count(), no_slot) {}

    [[nodiscard]] bool empty() const { return first_ == no_slot; }
    [[nodiscard]] Slot first() const { return first_; }
    [[nodiscard]] Slot next(Slot slot) const { return nodes_[slot].next; }
    [[nodiscard]] TreeEntry entry(Slot slot) const { return nodes_[slot].entry; }
    /// Where a module is queued itself; no_slot where it is not.
    [[nodiscard]] Slot slot_of(Index module) const { return slot_of_module_[module]; }

    /// Puts an entry before `next` (no_slot: at the end) and returns its slot.
    Slot insert(TreeEntry entry, Slot next) {
        auto const slot = static_cast<Slot>(nodes_.size());
        auto const previous = next == no_slot ? last_ : nodes_[next].previous;
        nodes_.push_back({entry, previous, next});
        (previous == no_slot ? first_ : nodes_[previous].next) = slot;
        (next == no_slot ? last_ : nodes_[next].previous) = slot;
        if (entry.is_module()) slot_of_module_[entry.index()] = slot;
        return slot;
    }
    void push_front(TreeEntry entry) { insert(entry, first_); }

    void remove(Slot slot) {
        auto const& node = nodes_[slot];
        (node.previous == no_slot ? first_ : nodes_[node.previous].next) = node.next;
        (node.next == no_slot ? last_ : nodes_[node.next].previous) = node.previous;
        if (node.entry.is_module()) slot_of_module_[node.entry.index()] = no_slot;
    }
    TreeEntry pop_front() {
        auto const entry = nodes_[first_].entry;
        remove(first_);
        return entry;
    }

    /// Puts a module's own parameters and then its children before `next`; its own buffers are left out, as accelerate
    /// does.
    void insert_parts(Index module, Slot next) {
        for (auto i = tree_.first_tensor(module); i < tree_.own_end(module); ++i) {
            if (tree_.tensor(i).is_parameter()) insert(TreeEntry::tensor(i), next);
        }
        for (auto child = module + 1; child < tree_.end(module); child = tree_.end(child)) {
            insert(TreeEntry::module(child), next);
        }
    }
    /// Replaces a queued module by its parts and returns the slot of the first.
    Slot split(Slot slot) {
        auto const module = nodes_[slot].entry.index();
        auto const next = nodes_[slot].next;
        remove(slot);
        auto const first_part = static_cast<Slot>(nodes_.size());
        insert_parts(module, next);
        return first_part;
    }

private:
    struct Node {
        TreeEntry entry;
        Slot previous;
        Slot next;
    };

    ExpandedTree const& tree_;
    std::vector<Slot> slot_of_module_;
    std::vector<Node> nodes_;
    Slot first_ = no_slot;
    Slot last_ = no_slot;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
