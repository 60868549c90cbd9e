// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/device_id.hpp>
#include <shardwise/placement/dialect/detail/fallback_search.hpp>
#include <shardwise/placement/dialect/detail/layer_ledger.hpp>
#include <shardwise/placement/dialect/detail/module_queue.hpp>
#include <shardwise/placement/dialect/detail/size_table.hpp>
#include <shardwise/placement/dialect/detail/tie_table.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A device as the greedy map fills it.
///
/// Units  bits
struct GreedyDevice {
    DeviceId device{};
    std::int64_t limit = 0;
    /// Keeps room for the largest layer.
    bool is_main = false;
    bool is_unlimited = false;
    /// What was placed, and at the end what was kept free.
    std::int64_t used = 0;
    /// Buffers of the modules placed here.
    std::int64_t buffers = 0;
};

/// An entry and the index of its device.
struct PlacedEntry {
    TreeEntry entry;
    std::uint32_t device;
};

/// What a greedy map does about a module whose tied parameters lie in other modules.
enum class TieRule : std::uint8_t {
    per_parameter,  // accelerate, transformers 5.0: adds the other module, less the parameter, for each tied parameter
    per_module,     // transformers 5.23: adds each other module once, and splits what does not fit together with them
};

/// Fills devices in order with the modules of a tree in registration order and never goes back: the algorithm that
/// accelerate and transformers share.
///
/// Source  accelerate 1.15 utils/modeling.py infer_auto_device_map; transformers 5.0 and 5.23
///         integrations/accelerate.py
class GreedyMap {
public:
    using Index = ExpandedTree::Index;
    using Slot = ModuleQueue::Slot;

    struct Settings {
        bool has_fallback = false;
        TieRule ties = TieRule::per_parameter;
        /// By class id: true where instances are never split.
        std::vector<char> is_whole;
    };

    /// The last device must be without a limit, and the tree must have a module.
    GreedyMap(ExpandedTree const& tree, SizeTable const& sizes, std::vector<GreedyDevice>& devices, Settings settings)
        : tree_(tree),
          sizes_(sizes),
          devices_(devices),
          settings_(std::move(settings)),
          queue_(tree),
          ties_(tree),
          ledger_(tree, sizes, settings_.is_whole),
          search_(tree, sizes, settings_.is_whole, ties_) {}

    /// Places everything but the own buffers of split modules.
    std::vector<PlacedEntry> run() {
        queue_model();
        while (!queue_.empty()) {
            auto const entry = queue_.pop_front();
            take(entry);
            ties_.find_outside(entry, tied_);
            auto const size = size_of(entry);
            auto const size_with_ties = size + find_tied_entries();
            auto& device = devices_[current_];
            auto const reserve = device.is_main ? ledger_.largest() : 0;
            auto const room = device.limit - reserve - device.used;
            if (device.is_unlimited || size_with_ties <= room) {
                place(entry, size_with_ties);
                continue;
            }
            if (!tied_.empty() && size <= room && split_tied(entry)) continue;
            bool const may_split = settings_.ties == TieRule::per_module || size >= room;
            if (may_split && is_splittable(entry)) {
                queue_.insert_parts(entry.index(), queue_.first());
                ledger_.search_again();
                continue;
            }
            if (device.used == 0 && settings_.has_fallback && fall_back(entry, size_with_ties)) continue;
            device.used += reserve;
            ++current_;
            fallbacks_ = 0;
            queue_.push_front(entry);
        }
        return std::move(placed_);
    }

    /// True where the library would have raised an exception on the way.
    [[nodiscard]] bool is_repaired() const { return is_repaired_ || search_.is_repaired(); }

private:
    /// Two entries that offer each other would take turns for ever; no honest chain comes near this.
    static constexpr int max_fallbacks = 1000;

    void queue_model() {
        queue_.insert_parts(0, ModuleQueue::no_slot);
        for (auto i = tree_.first_tensor(0); i < tree_.own_end(0); ++i) {
            if (!tree_.tensor(i).is_parameter()) queue_.insert(TreeEntry::tensor(i), ModuleQueue::no_slot);
        }
    }
    [[nodiscard]] std::int64_t size_of(TreeEntry entry) const {
        return entry.is_tensor() ? sizes_.of_tensor(entry.index()) : sizes_.of_module(entry.index());
    }
    [[nodiscard]] bool is_splittable(TreeEntry entry) const {
        return entry.is_module() && tree_.has_children(entry.index()) &&
               settings_.is_whole[tree_.class_id(entry.index())] == 0;
    }
    void take(TreeEntry entry) {
        if (entry.is_tensor()) {
            ledger_.take_tensor(entry.index());
        } else {
            ledger_.take_module(entry.index());
        }
    }

    /// Finds the queued modules that hold the tied parameters and returns what they add.
    std::int64_t find_tied_entries() {
        tied_slots_.clear();
        std::int64_t extra = 0;
        for (auto const tensor : tied_) {
            auto module = tree_.owner(tensor);
            while (module != ExpandedTree::none && queue_.slot_of(module) == ModuleQueue::no_slot) {
                module = tree_.parent(module);
            }
            if (module == ExpandedTree::none) {
                // Placed before, or queued as a parameter of its own: accelerate finds no module and raises IndexError.
                is_repaired_ = true;
                continue;
            }
            auto const slot = queue_.slot_of(module);
            if (settings_.ties == TieRule::per_parameter) {
                extra += sizes_.of_module(module) - sizes_.of_tensor(tensor);
            } else {
                if (std::find(tied_slots_.begin(), tied_slots_.end(), slot) != tied_slots_.end()) continue;
                extra += sizes_.of_module(module);
            }
            tied_slots_.push_back(slot);
        }
        return extra;
    }

    void place(TreeEntry entry, std::int64_t size_with_ties) {
        auto& device = devices_[current_];
        device.used += size_with_ties;
        fallbacks_ = 0;
        placed_.push_back({entry, current_});
        if (entry.is_module()) {
            ledger_.place(entry.index());
            device.buffers += buffers_of(entry.index());
        }
        for (auto const slot : tied_slots_) {
            auto const tied = queue_.entry(slot);
            if (queue_.slot_of(tied.index()) != slot) continue;  // tied twice
            queue_.remove(slot);
            ledger_.pull(tied.index());
            placed_.push_back({tied, current_});
        }
    }
    [[nodiscard]] std::int64_t buffers_of(Index module) const {
        if (!tree_.has_buffers()) return 0;
        std::int64_t size = 0;
        for (auto i = tree_.first_tensor(module); i < tree_.subtree_end(module); ++i) {
            if (!tree_.tensor(i).is_parameter()) size += sizes_.of_tensor(i);
        }
        return size;
    }

    bool split_tied(TreeEntry entry) {
        for (auto const slot : tied_slots_) {
            if (!is_splittable(queue_.entry(slot))) continue;
            queue_.split(slot);
            queue_.push_front(entry);
            ledger_.search_again();
            return true;
        }
        return false;
    }

    /// Lets an entry that fits go first.
    bool fall_back(TreeEntry entry, std::int64_t size_with_ties) {
        if (++fallbacks_ > max_fallbacks) return false;
        auto const& device = devices_[current_];
        auto const limit = device.limit - std::max(ledger_.largest(), size_with_ties);
        auto const found = search_.find(queue_, limit);
        if (!found) return false;
        auto const slot = unwrap(found->slot, found->entry);
        queue_.remove(slot);
        queue_.push_front(entry);
        queue_.push_front(found->entry);
        return true;
    }
    /// Splits queued modules until `entry`, which lies in the one at `slot`, is queued itself.
    Slot unwrap(Slot slot, TreeEntry entry) {
        auto const holder = entry.is_tensor() ? tree_.owner(entry.index()) : entry.index();
        while (!(queue_.entry(slot) == entry)) {
            slot = queue_.split(slot);
            auto const is_on_the_way = [&](TreeEntry part) {
                if (part == entry || part.is_tensor()) return part == entry;
                return part.index() <= holder && holder < tree_.end(part.index());
            };
            while (!is_on_the_way(queue_.entry(slot))) slot = queue_.next(slot);
        }
        return slot;
    }

    ExpandedTree const& tree_;
    SizeTable const& sizes_;
    std::vector<GreedyDevice>& devices_;
    Settings settings_;
    ModuleQueue queue_;
    TieTable ties_;
    LayerLedger ledger_;
    FallbackSearch search_;
    std::vector<PlacedEntry> placed_;
    std::vector<Index> tied_;
    std::vector<Slot> tied_slots_;
    std::uint32_t current_ = 0;
    int fallbacks_ = 0;
    bool is_repaired_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
