// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Below the key of every number.
inline constexpr std::int64_t no_logit_key = -0x7FFF'FFFF'FFFF'FFFF - 1;

/// Orders as (logit, lower id first): the larger key wins. -0 is +0; what is no number never wins.
///
/// Shapes  id below 2^32
[[nodiscard]] SHARDWISE_DEVICE constexpr std::int64_t logit_key(float logit, std::int64_t id) {
    if (logit != logit) return no_logit_key;
    auto const bits = __builtin_bit_cast(std::int32_t, logit + 0.0F);
    // Negative floats count downwards.
    auto const ordered = bits < 0 ? static_cast<std::int64_t>(bits ^ 0x7FFF'FFFF) : static_cast<std::int64_t>(bits);
    return ordered * (std::int64_t{1} << 32) + (std::int64_t{0xFFFF'FFFF} - id);
}

/// The id of a key; -1 of that of no number.
[[nodiscard]] SHARDWISE_DEVICE constexpr std::int32_t id_of_key(std::int64_t key) {
    if (key == no_logit_key) return -1;
    return static_cast<std::int32_t>(0xFFFF'FFFF - (key & 0xFFFF'FFFF));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
