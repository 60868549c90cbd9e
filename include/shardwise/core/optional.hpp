// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>

#include <optional>
#include <type_traits>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A value or none: the part of std::optional that the planning half uses, copied as its value is. T must be
/// default-constructible. Converts to and from std::optional.
///
/// std::optional would do, but each of its instantiations costs an including program about 5 ms with g++ -O0, and there are
/// a dozen.
template <class T>
class Optional {
public:
    using value_type = T;

    constexpr Optional() = default;
    constexpr Optional(std::nullopt_t) {}                                        // NOLINT: implicit on purpose
    constexpr Optional(T value) : value_(std::move(value)), has_value_(true) {}  // NOLINT: implicit on purpose
    // Deduced, so that std::optional<T> is named but not instantiated where nobody converts.
    template <class Other>
    requires std::is_same_v<Other, std::optional<T>>
    constexpr Optional(Other const& other) : has_value_(other.has_value()) {  // NOLINT: implicit on purpose
        if (has_value_) value_ = *other;
    }
    template <class Other>
    requires std::is_same_v<Other, std::optional<T>>
    constexpr operator Other() const {  // NOLINT: implicit on purpose
        return has_value_ ? Other{value_} : Other{};
    }

    [[nodiscard]] constexpr bool has_value() const { return has_value_; }
    [[nodiscard]] constexpr explicit operator bool() const { return has_value_; }
    /// The value; asking for it where there is none is a bug of the caller, which SHARDWISE_ASSERT reports.
    [[nodiscard]] constexpr T& value() { return check_value(), value_; }
    [[nodiscard]] constexpr T const& value() const { return check_value(), value_; }
    [[nodiscard]] constexpr T& operator*() { return check_value(), value_; }
    [[nodiscard]] constexpr T const& operator*() const { return check_value(), value_; }
    [[nodiscard]] constexpr T* operator->() { return check_value(), &value_; }
    [[nodiscard]] constexpr T const* operator->() const { return check_value(), &value_; }
    [[nodiscard]] constexpr T value_or(T fallback) const { return has_value_ ? value_ : fallback; }
    constexpr void reset() { *this = Optional{}; }

    /// True for two equal values and for none on both sides.
    friend constexpr bool operator==(Optional const& a, Optional const& b) {
        return a.has_value_ == b.has_value_ && (!a.has_value_ || a.value_ == b.value_);
    }
    friend constexpr bool operator==(Optional const& a, T const& b) { return a.has_value_ && a.value_ == b; }
    friend constexpr bool operator==(Optional const& a, std::nullopt_t) { return !a.has_value_; }
    friend constexpr bool operator==(Optional const& a, std::optional<T> const& b) { return a == Optional{b}; }

private:
    constexpr void check_value() const {
        SHARDWISE_ASSERT(has_value_ && "this Optional holds nothing: ask has_value() first, or value_or()");
    }

    T value_{};
    bool has_value_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
