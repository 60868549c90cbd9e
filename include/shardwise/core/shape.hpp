// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/optional.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The extents of a dense row-major tensor, outermost first, as torch prints them. Rank 0 is a scalar.
class Shape {
public:
    static constexpr std::size_t max_rank = 8;

    constexpr Shape() = default;
    /// At most `max_rank` extents; readers check before they build one.
    constexpr Shape(std::initializer_list<std::int64_t> extents) {
        for (auto const extent : extents) push_back(extent);
    }

    constexpr void push_back(std::int64_t extent) { extents_[rank_++] = extent; }

    [[nodiscard]] constexpr std::size_t rank() const { return rank_; }
    [[nodiscard]] constexpr std::int64_t operator[](std::size_t dimension) const { return extents_[dimension]; }
    constexpr std::int64_t& operator[](std::size_t dimension) { return extents_[dimension]; }
    [[nodiscard]] constexpr std::int64_t const* begin() const { return extents_.data(); }
    [[nodiscard]] constexpr std::int64_t const* end() const { return extents_.data() + rank_; }

    /// The number of elements; 1 for a scalar. For shapes from files use checked_elements.
    [[nodiscard]] constexpr std::int64_t elements() const {
        std::int64_t product = 1;
        for (auto const extent : *this) product *= extent;
        return product;
    }

    /// The number of elements, or nothing where the product leaves 63 bits. A zero extent makes it zero,
    /// but extents before and after it must still multiply without overflow (safetensors' rule).
    [[nodiscard]] constexpr Optional<std::int64_t> checked_elements() const {
        std::int64_t product = 1;
        for (auto const extent : *this) {
            auto const next = checked_multiply(product, extent);
            if (!next) return std::nullopt;
            product = *next;
        }
        return product;
    }

    friend constexpr bool operator==(Shape const& a, Shape const& b) {
        if (a.rank_ != b.rank_) return false;
        for (std::size_t i = 0; i < a.rank_; ++i) {
            if (a.extents_[i] != b.extents_[i]) return false;
        }
        return true;
    }

private:
    std::array<std::int64_t, max_rank> extents_{};
    std::uint8_t rank_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
