#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace shardwise::inline v0_2_0 {

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

}  // namespace detail

}  // namespace shardwise::inline v0_2_0
