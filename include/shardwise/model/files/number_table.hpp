// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Finds numbers 0, 1, 2 ... by the hashes of what they stand for, which lies with their owner.
///
/// Memory  4 bytes per number, 4 per slot of the table, which is a third to three quarters full
class NumberTable {
public:
    [[nodiscard]] std::size_t size() const { return hashes_.size(); }
    /// About what it takes.
    ///
    /// Units  bytes
    [[nodiscard]] std::size_t memory() const { return size() * 3 * sizeof(std::uint32_t); }
    /// Makes room for so many numbers.
    void reserve(std::size_t count) {
        hashes_.reserve(count);
        auto slots = std::size_t{64};
        while (is_full(count, slots)) slots *= 2;
        if (slots > slots_.size()) spread(slots);
    }

    /// The number with this hash of which `is_it(number)` is true.
    template <class IsIt>
    [[nodiscard]] std::optional<std::uint32_t> find(std::uint32_t hash, IsIt const& is_it) const {
        if (slots_.empty()) return std::nullopt;
        auto const slot = slots_[slot_of(hash, is_it)];
        return slot == 0 ? std::nullopt : std::optional{slot - 1};
    }
    /// The number that `find` finds; else the next one, and true.
    template <class IsIt>
    std::pair<std::uint32_t, bool> find_or_add(std::uint32_t hash, IsIt const& is_it) {
        if (is_full(size() + 1, slots_.size())) spread(slots_.empty() ? 64 : slots_.size() * 2);
        auto& slot = slots_[slot_of(hash, is_it)];
        bool const is_new = slot == 0;
        if (is_new) {
            hashes_.push_back(hash);
            slot = static_cast<std::uint32_t>(size());
        }
        return {slot - 1, is_new};
    }

private:
    [[nodiscard]] static bool is_full(std::size_t count, std::size_t slots) { return count * 4 > slots * 3; }
    /// The slot of the number, or the empty one where it belongs.
    template <class IsIt>
    [[nodiscard]] std::size_t slot_of(std::uint32_t hash, IsIt const& is_it) const {
        auto const mask = slots_.size() - 1;
        for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
            auto const slot = slots_[at];
            if (slot == 0 || (hashes_[slot - 1] == hash && is_it(slot - 1))) return at;
        }
    }
    /// Makes the table that large.
    void spread(std::size_t slots) {
        std::vector<std::uint32_t> wider(slots);
        auto const mask = slots - 1;
        for (std::size_t number = 0; number < size(); ++number) {
            auto at = hashes_[number] & mask;
            while (wider[at] != 0) at = (at + 1) & mask;
            wider[at] = static_cast<std::uint32_t>(number + 1);
        }
        slots_.swap(wider);
    }

    std::vector<std::uint32_t> hashes_;  // by number
    std::vector<std::uint32_t> slots_;   // number + 1; 0 is empty
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
