// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// a * b for non-negative operands, or nothing where the product leaves 63 bits.
[[nodiscard]] constexpr Optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
    if (a < 0 || b < 0) return std::nullopt;
    if (b != 0 && a > std::numeric_limits<std::int64_t>::max() / b) return std::nullopt;
    return a * b;
}

/// a + b for non-negative operands, or nothing where the sum leaves 63 bits.
[[nodiscard]] constexpr Optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
    if (a < 0 || b < 0) return std::nullopt;
    if (a > std::numeric_limits<std::int64_t>::max() - b) return std::nullopt;
    return a + b;
}

/// The smallest integer not below a / b; a >= 0, b > 0.
[[nodiscard]] constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
/// The same for sizes of spans.
template <class Unsigned>
requires(std::is_unsigned_v<Unsigned>) [[nodiscard]] constexpr Unsigned ceil_divide(Unsigned a, Unsigned b) {
    return a / b + (a % b != 0 ? 1U : 0U);
}

/// The smallest multiple of `unit` not below a; a >= 0, unit > 0.
[[nodiscard]] constexpr std::int64_t round_up(std::int64_t a, std::int64_t unit) { return ceil_divide(a, unit) * unit; }

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
