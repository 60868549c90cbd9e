// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The hash FNV-1a: what it starts with, and what takes the next byte in.
///
/// Source  Fowler, Noll, Vo (http://www.isthe.com/chongo/tech/comp/fnv)
inline constexpr std::uint64_t fnv1a_start = 0xCBF2'9CE4'8422'2325U;
[[nodiscard]] constexpr std::uint64_t fnv1a_step(std::uint64_t hash, std::uint64_t next) {
    return (hash ^ next) * 0x0000'0100'0000'01B3U;
}

[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text) {
    auto hash = fnv1a_start;
    for (char const c : text) hash = fnv1a_step(hash, static_cast<unsigned char>(c));
    return hash;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
