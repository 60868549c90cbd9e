// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/huge_pages.hpp>
#include <shardwise/backend/host/isa.hpp>
#include <shardwise/calibrate/detail/read_lines.hpp>
#include <shardwise/calibrate/rate_probe.hpp>
#include <shardwise/core/bytes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Memory that probes of its rates read: well beyond any cache.
inline constexpr Bytes memory_probe_bytes{std::int64_t{256} << 20U};

namespace detail {

/// What each piece of work of a memory probe covers: small, so that a thread that was kept from running holds up
/// nobody.
inline constexpr std::int64_t memory_probe_part = std::int64_t{1} << 20U;

/// Memory in whole parts that every thread of a context has written to.
[[nodiscard]] inline Result<Buffer<std::byte, Host>> touched_memory(HostContext& context, Bytes bytes) {
    auto const parts = std::max<std::int64_t>(bytes.count() / memory_probe_part, 1);
    auto memory = Buffer<std::byte, Host>::allocate(context, parts * memory_probe_part);
    if (!memory) return memory.error();
    auto* const data = memory->data();
    prefer_huge_pages(data, memory->size());
    context.pool().run(parts, [data](std::int64_t part) {
        std::memset(data + part * memory_probe_part, 1, static_cast<std::size_t>(memory_probe_part));
    });
    return memory;
}

}  // namespace detail

/// The rate at which all threads of a context together read memory: the best of several orders of reading.
///
/// Units   bytes per second
/// Errors  out_of_memory; deadline_exceeded
[[nodiscard]] inline Result<double> measure_read_rate(HostContext& context, RateProbe probe,
                                                      Bytes bytes = memory_probe_bytes) {
    auto memory = detail::touched_memory(context, bytes);
    if (!memory) return memory.error();
    auto const* const data = memory->data();
    auto const parts = memory->size() / detail::memory_probe_part;
    auto const isa = detect_isa();
    std::uint64_t volatile sink = 0;
    double best = 0.0;
    probe.time /= 3;
    for (int const streams : {1, 2, 4}) {
        auto const seconds = best_seconds(probe, [&]() -> Result<> {
            context.pool().run(parts, [&](std::int64_t part) {
                sink = detail::read_lines(data + part * detail::memory_probe_part, detail::memory_probe_part, streams,
                                          isa);
            });
            return {};
        });
        if (!seconds) return seconds.error();
        best = std::max(best, static_cast<double>(memory->size()) / *seconds);
    }
    return best;
}

/// The rate at which all threads of a context together copy memory; what is copied counts once.
///
/// Units   bytes per second
/// Errors  out_of_memory; deadline_exceeded
[[nodiscard]] inline Result<double> measure_copy_rate(HostContext& context, RateProbe const& probe,
                                                      Bytes bytes = memory_probe_bytes) {
    auto memory = detail::touched_memory(context, bytes);
    if (!memory) return memory.error();
    auto* const data = memory->data();
    constexpr auto half = detail::memory_probe_part / 2;
    auto const parts = memory->size() / detail::memory_probe_part;
    auto const seconds = best_seconds(probe, [&]() -> Result<> {
        context.pool().run(parts, [data](std::int64_t part) {
            auto* const at = data + part * detail::memory_probe_part;
            std::memcpy(at + half, at, static_cast<std::size_t>(half));
        });
        return {};
    });
    if (!seconds) return seconds.error();
    return static_cast<double>(parts * half) / *seconds;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
