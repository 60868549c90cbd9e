// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/thread_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Has the pages of a mapped file's bytes ready before they are read: one call of the system instead of a fault for
/// every few of them.
inline void map_pages([[maybe_unused]] std::span<std::byte const> mapped) {
#if defined(__linux__) && defined(MADV_POPULATE_READ)
    auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    auto const begin = reinterpret_cast<std::uintptr_t>(mapped.data()) / page * page;
    auto const end = reinterpret_cast<std::uintptr_t>(mapped.data()) + mapped.size();
    if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
#endif
}

/// Gives the whole pages within a mapped file's bytes back to the system; they come in again if they are touched. Other
/// memory would lose what it holds.
inline void drop_pages([[maybe_unused]] std::span<std::byte const> mapped) {
#if defined(__linux__)
    auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    auto const begin = (reinterpret_cast<std::uintptr_t>(mapped.data()) + page - 1) / page * page;
    auto const end = (reinterpret_cast<std::uintptr_t>(mapped.data()) + mapped.size()) / page * page;
    if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
#endif
}

/// Calls `work(first, last)` for all units of some bytes, so many at a time, as run_in_order. Of a mapped file no more
/// is in memory than what is worked on: its pages come in before, and go back after.
template <class Work>
void read_in_order(ThreadPool& pool, std::span<std::byte const> data, bool is_mapped, std::int64_t units,
                   std::int64_t unit_bytes, std::int64_t step, Work const& work) {
    pool.run_in_order(units, step, [&](std::int64_t first, std::int64_t last) {
        if (!is_mapped) return work(first, last);
        auto const begin = static_cast<std::size_t>(first * unit_bytes);
        auto const end = std::min(static_cast<std::size_t>(last * unit_bytes), data.size());
        auto const part = data.subspan(begin, end - begin);
        map_pages(part);
        work(first, last);
        drop_pages(part);
    });
    // Pages that two parts share.
    if (is_mapped) drop_pages(data);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
