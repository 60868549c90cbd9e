// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The numbers of a configuration that one family alone reads, flags as 0 and 1: by the keys of that family's field table, whose rows
/// name no member of ModelConfig. `describe` gives those that nobody set their defaults.
class OwnNumbers {
public:
    static constexpr std::size_t capacity = 8;

    [[nodiscard]] constexpr bool has(std::string_view key) const { return find(key) < size_; }
    /// A key that the family's field table has.
    [[nodiscard]] constexpr std::int64_t operator[](std::string_view key) const {
        SHARDWISE_ASSERT(has(key));
        return numbers_[find(key)].value;
    }
    /// The same of a real.
    [[nodiscard]] constexpr double real(std::string_view key) const { return std::bit_cast<double>((*this)[key]); }
    constexpr void set_real(std::string_view key, double value) { set(key, std::bit_cast<std::int64_t>(value)); }
    /// `key` outlives this: a literal.
    constexpr void set(std::string_view key, std::int64_t value) {
        auto const at = find(key);
        SHARDWISE_ASSERT(at < capacity);
        numbers_[at] = {key, value};
        if (at == size_) ++size_;
    }

private:
    struct Number {
        std::string_view key;
        std::int64_t value = 0;
    };
    [[nodiscard]] constexpr std::size_t find(std::string_view key) const {
        std::size_t i = 0;
        while (i < size_ && numbers_[i].key != key) ++i;
        return i;
    }

    std::array<Number, capacity> numbers_{};
    std::size_t size_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
