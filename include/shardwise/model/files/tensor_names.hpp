// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/files/number_table.hpp>
#include <shardwise/model/files/tensor_names_hash.hpp>
#include <shardwise/model/name_arena.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The distinct names of a file's tensors in the order they were added, numbered from 0, found in constant time.
///
/// Memory  12 bytes per name, those of the table of numbers, and the text
class TensorNames {
public:
    [[nodiscard]] std::size_t size() const { return begins_.size(); }
    [[nodiscard]] std::string_view operator[](std::size_t id) const { return {begins_[id], sizes_[id]}; }

    /// Adds a name and returns its number; nothing where it was added before.
    [[nodiscard]] std::optional<std::uint32_t> add(std::string_view name) {
        auto const added =
            numbers_.find_or_add(short_hash(name), [&](std::uint32_t id) { return (*this)[id] == name; });
        if (!added.second) return std::nullopt;
        auto const kept = texts_.join(name);
        text_size_ += kept.size();
        begins_.push_back(kept.data());
        sizes_.push_back(static_cast<std::uint32_t>(kept.size()));
        return added.first;
    }
    /// The number of a name; nothing where there is no such name.
    [[nodiscard]] std::optional<std::uint32_t> find(std::string_view name) const {
        return numbers_.find(short_hash(name), [&](std::uint32_t id) { return (*this)[id] == name; });
    }

    /// About what it takes.
    ///
    /// Units  bytes
    [[nodiscard]] std::size_t memory() const {
        return size() * (sizeof(char const*) + sizeof(std::uint32_t)) + numbers_.memory() + text_size_;
    }

    /// The text of all names, which stays where it is; no name may be asked for afterwards.
    [[nodiscard]] NameArena take_texts() && { return std::move(texts_); }

private:
    [[nodiscard]] static std::uint32_t short_hash(std::string_view name) {
        return static_cast<std::uint32_t>(detail::hash_name(name));
    }

    NameArena texts_;
    std::size_t text_size_ = 0;
    std::vector<char const*> begins_;
    std::vector<std::uint32_t> sizes_;
    detail::NumberTable numbers_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
