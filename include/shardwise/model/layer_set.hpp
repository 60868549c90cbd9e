// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A set of layers, held by value: which layers slide, which are dense.
class LayerSet {
public:
    /// The most layers that a model may have.
    static constexpr std::int64_t capacity = 1024;

    constexpr void insert(std::int64_t layer) {
        words_[static_cast<std::size_t>(layer) / 64] |= std::uint64_t{1} << (static_cast<std::uint64_t>(layer) % 64U);
    }
    constexpr void erase(std::int64_t layer) {
        words_[static_cast<std::size_t>(layer) / 64] &= ~(std::uint64_t{1} << (static_cast<std::uint64_t>(layer) % 64U));
    }
    [[nodiscard]] constexpr bool contains(std::int64_t layer) const {
        return layer >= 0 && layer < capacity &&
               ((words_[static_cast<std::size_t>(layer) / 64] >> (static_cast<std::uint64_t>(layer) % 64U)) & 1U) != 0;
    }
    [[nodiscard]] constexpr bool empty() const { return *this == LayerSet{}; }

    friend constexpr bool operator==(LayerSet const& a, LayerSet const& b) {
        for (std::size_t i = 0; i < a.words_.size(); ++i) {
            if (a.words_[i] != b.words_[i]) return false;
        }
        return true;
    }

private:
    std::array<std::uint64_t, capacity / 64> words_{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
