// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Asks the system to back memory that is about to be written with pages of 2 MiB, where it has them: a product that streams
/// gigabytes of weights otherwise waits for the translation of every 4 KiB. A refusal changes nothing but the speed.
inline void prefer_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr std::uintptr_t page = std::uintptr_t{2} << 20U;
    auto const begin = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
    auto const end = (reinterpret_cast<std::uintptr_t>(memory) + static_cast<std::uintptr_t>(bytes)) / page * page;
    if (memory != nullptr && begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
