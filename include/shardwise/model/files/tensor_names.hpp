#pragma once

#include <shardwise/model/files/tensor_names_hash.hpp>
#include <shardwise/model/name_arena.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline v0_2_0 {

/// The distinct names of a file's tensors in the order they were added, numbered from 0, found in constant time.
///
/// Memory  16 bytes per name, 4 to 8 per slot of the table, and the text
class TensorNames {
public:
    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] std::string_view operator[](std::size_t id) const { return {entries_[id].text, entries_[id].size}; }

    /// Adds a name and returns its number; nothing where it was added before.
    [[nodiscard]] std::optional<std::uint32_t> add(std::string_view name) {
        if ((entries_.size() + 1) * 4 > slots_.size() * 3) grow();
        auto const hash = short_hash(name);
        auto& slot = slots_[find_slot(name, hash)];
        if (slot != 0) return std::nullopt;
        auto const kept = texts_.join(name);
        text_size_ += kept.size();
        entries_.push_back({kept.data(), static_cast<std::uint32_t>(kept.size()), hash});
        slot = static_cast<std::uint32_t>(entries_.size());
        return slot - 1;
    }
    /// The number of a name; nothing where there is no such name.
    [[nodiscard]] std::optional<std::uint32_t> find(std::string_view name) const {
        if (slots_.empty()) return std::nullopt;
        auto const slot = slots_[find_slot(name, short_hash(name))];
        return slot == 0 ? std::nullopt : std::optional{slot - 1};
    }

    /// About what it takes.
    ///
    /// Units  bytes
    [[nodiscard]] std::size_t memory() const { return entries_.size() * (sizeof(Entry) + 8) + text_size_; }

    /// The text of all names, which stays where it is; no name may be asked for afterwards.
    [[nodiscard]] NameArena take_texts() && { return std::move(texts_); }

private:
    struct Entry {
        char const* text;
        std::uint32_t size;
        std::uint32_t hash;
    };

    [[nodiscard]] static std::uint32_t short_hash(std::string_view name) {
        return static_cast<std::uint32_t>(detail::hash_name(name));
    }
    /// The slot that holds the name, or the empty one where it belongs.
    [[nodiscard]] std::size_t find_slot(std::string_view name, std::uint32_t hash) const {
        auto const mask = slots_.size() - 1;
        for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
            auto const slot = slots_[at];
            if (slot == 0) return at;
            if (entries_[slot - 1].hash == hash && (*this)[slot - 1] == name) return at;
        }
    }
    void grow() {
        std::vector<std::uint32_t> wider(slots_.empty() ? 64 : slots_.size() * 2);
        auto const mask = wider.size() - 1;
        for (std::size_t id = 0; id < entries_.size(); ++id) {
            auto at = entries_[id].hash & mask;
            while (wider[at] != 0) at = (at + 1) & mask;
            wider[at] = static_cast<std::uint32_t>(id + 1);
        }
        slots_.swap(wider);
    }

    NameArena texts_;
    std::size_t text_size_ = 0;
    std::vector<Entry> entries_;
    std::vector<std::uint32_t> slots_;  // number + 1; 0 is empty
};

}  // namespace shardwise::inline v0_2_0
