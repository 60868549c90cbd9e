// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Memory that is read once, in its order, is asked for twice: so far ahead of what is read into the second-level cache, which
/// waits for more lines at a time than the first level does, and so far ahead from there into the first.
///
/// Source  bench/results/2026-11-23-kernels-epyc.md (Zen 4) and 2026-11-23-zen5.md (Zen 5): among the fastest distances of both
inline constexpr std::uintptr_t memory_ahead = 24 * 1024;
inline constexpr std::uintptr_t cache_ahead = 5 * 1024;

/// Asks for the lines of `bytes` bytes that are read so far after `reading`. Beyond the end nothing happens.
template <std::int64_t bytes = 64>
SHARDWISE_ALWAYS_INLINE void ask_ahead(std::byte const* reading) {
    auto const start = reinterpret_cast<std::uintptr_t>(reading);
    for (std::uintptr_t at = start; at < start + bytes; at += 64) {
        __builtin_prefetch(reinterpret_cast<void const*>(at + memory_ahead), 0, 2);
        __builtin_prefetch(reinterpret_cast<void const*>(at + cache_ahead), 0, 3);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
