// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/placement/dialect/detail/greedy_map.hpp>
#include <shardwise/placement/dialect/dialect_map.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Writes placed entries as a device map; with `merges`, prefixes of two or more entries on one device become one.
///
/// Order  a merged prefix stands where its first entry stood
class EntryMerger {
public:
    using Index = ExpandedTree::Index;

    EntryMerger(ExpandedTree const& tree, std::span<PlacedEntry const> placed, bool merges)
        : tree_(tree), placed_(placed), merges_(merges) {}

    std::vector<MapEntry> run(std::vector<GreedyDevice> const& devices) {
        within_.assign(tree_.module_count(), {});
        for (auto const& entry : placed_) count(entry);
        std::vector<MapEntry> map;
        for (auto const& entry : placed_) {
            if (auto prefix = prefix_of(entry)) map.push_back({std::move(*prefix), devices[entry.device].device});
        }
        return map;
    }

    /// The buffers to which the map gives no device: own buffers of modules that were split over devices.
    [[nodiscard]] std::vector<Index> uncovered_buffers() const {
        std::vector<Index> lost;
        for (Index tensor = tree_.own_end(0); tensor < tree_.tensor_count(); ++tensor) {
            if (tree_.tensor(tensor).is_parameter()) continue;
            auto at = tree_.owner(tensor);
            while (at != ExpandedTree::none && !within_[at].is_written) at = tree_.parent(at);
            if (at == ExpandedTree::none) lost.push_back(tensor);
        }
        return lost;
    }

private:
    static constexpr std::uint16_t mixed = UINT16_MAX;

    /// What lies strictly within a module.
    struct Within {
        std::uint16_t device = 0;
        /// 0, 1, or 2 for more.
        std::uint8_t entries = 0;
        /// The map names this module.
        bool is_written = false;
    };

    [[nodiscard]] Index holder_of(TreeEntry entry) const {
        return entry.is_tensor() ? tree_.owner(entry.index()) : tree_.parent(entry.index());
    }
    void count(PlacedEntry const& placed) {
        auto const device = static_cast<std::uint16_t>(placed.device);
        for (auto at = holder_of(placed.entry); at != ExpandedTree::none; at = tree_.parent(at)) {
            auto& within = within_[at];
            if (within.entries == 2 && within.device == mixed) return;  // and so is all that holds it
            within.device = within.entries == 0 || within.device == device ? device : mixed;
            if (within.entries < 2) ++within.entries;
        }
    }
    /// The prefix that stands for an entry; nothing where an earlier entry wrote it.
    std::optional<std::string> prefix_of(PlacedEntry const& placed) {
        auto const entry = placed.entry;
        if (merges_) {
            auto top = ExpandedTree::none;
            for (auto at = holder_of(entry); at != ExpandedTree::none && within_[at].device != mixed;
                 at = tree_.parent(at)) {
                top = at;
            }
            if (top != ExpandedTree::none && within_[top].entries == 2) {
                if (within_[top].is_written) return std::nullopt;
                within_[top].is_written = true;
                return tree_.path(top);
            }
        }
        if (entry.is_tensor()) return tree_.tensor_path(entry.index());
        within_[entry.index()].is_written = true;
        return tree_.path(entry.index());
    }

    ExpandedTree const& tree_;
    std::span<PlacedEntry const> placed_;
    bool merges_;
    std::vector<Within> within_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
