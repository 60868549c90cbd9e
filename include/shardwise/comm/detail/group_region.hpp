// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/detail/published_call.hpp>
#include <shardwise/comm/detail/staging_ring.hpp>
#include <shardwise/comm/detail/step_protocol.hpp>
#include <shardwise/core/error.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Whether a rank is there.
enum class Presence : std::uint32_t { absent, joined, left };

/// Where the first error of a group is kept.
enum class Poison : std::uint32_t { none, writing, written };

/// Processors fetch lines in pairs: what two ranks publish steps in lies this far apart.
inline constexpr std::size_t line_pair_bytes = 128;

/// What a rank publishes with a step: one line of the cache, so that a short message takes no longer than the news of it.
/// All but `arrived` and `core` is written before `arrived` is raised and read after it was seen raised.
struct alignas(line_pair_bytes) PublishedStep {
    static constexpr std::size_t max_bytes = 32;

    /// The step; wraps around.
    std::atomic<std::uint32_t> arrived{0};
    /// Where the rank ran: whoever waits for it on the same core must leave it the core. -1 if unknown.
    std::atomic<std::int32_t> core{-1};
    PublishedCall call{};
    /// What the rank publishes, if it is no longer.
    std::byte bytes[max_bytes]{};
};
static_assert(offsetof(PublishedStep, bytes) + PublishedStep::max_bytes <= 64, "a step is published in one line");

/// One rank's part of the memory that a group shares.
struct RankSlot {
    /// By the step's parity: a fast rank's next step does not overwrite what a slow one still reads.
    PublishedStep steps[2];
    std::atomic<Presence> presence{Presence::absent};
    /// Of a rank that is a process.
    std::atomic<std::int32_t> process{0};
};

/// A one-way channel from one rank to another: two halves of staging memory, filled and emptied in turn.
struct alignas(64) Mailbox {
    std::atomic<std::uint32_t> written{0};
    alignas(64) std::atomic<std::uint32_t> read{0};
    /// Of the message that begins with the letter in this half.
    Dtype dtype[2]{};
    std::int64_t count[2]{};
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "ranks of several processes share these atomics");

/// How the shared memory of a group is laid out. It holds no pointers, so that processes may map it at different addresses.
///
/// Memory  header | rank slots, with steps of a few bytes | mailboxes [to][from] | staging [rank]: one piece for two ranks, else
///         two halves of short pieces and a ring of long ones, which is also lent as a whole |
///         mail staging [to][from][2][letter]
struct alignas(line_pair_bytes) GroupRegion {
    std::int32_t ranks = 0;
    /// The longest piece of one step and rank.
    std::size_t chunk_bytes = 0;
    std::size_t letter_bytes = 0;
    std::atomic<Poison> poison{Poison::none};
    Error first_error{ErrorCode::rank_lost};

    /// Sizes of groups of any number of ranks are far from overflowing with it.
    static constexpr std::size_t max_chunk_bytes = std::size_t{1} << 30U;

    [[nodiscard]] static constexpr std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

    /// Messages between two ranks are cut into letters of this size: a MiB per rank for all of its mailboxes, at least a page.
    [[nodiscard]] static constexpr std::size_t letter_size(std::int32_t ranks) {
        auto const share = (std::size_t{1} << 20U) / static_cast<std::size_t>(ranks);
        return share < 4096 ? 4096 : round_up(share);
    }
    /// Pieces up to this size alternate between two halves that stay in the first-level caches.
    [[nodiscard]] static constexpr std::size_t short_size(std::size_t chunk) {
        constexpr std::size_t most = 8192;
        return chunk < most ? chunk : most;
    }
    /// Longer than a second-level cache for groups of a few ranks, as short as it may be for many.
    [[nodiscard]] static constexpr std::size_t ring_size(std::int32_t rank_count, std::size_t chunk) {
        return chunk * (rank_count <= 4 ? 8 : rank_count <= 8 ? 4 : StagingRing::min_pieces);
    }
    [[nodiscard]] static constexpr std::size_t staging_size(std::int32_t rank_count, std::size_t chunk) {
        return StepProtocol::swaps(rank_count) ? chunk : 2 * short_size(chunk) + ring_size(rank_count, chunk);
    }
    [[nodiscard]] static constexpr std::size_t header_bytes() { return sizeof(GroupRegion); }
    [[nodiscard]] static constexpr std::size_t bytes(std::int32_t rank_count, std::size_t chunk) {
        auto const n = static_cast<std::size_t>(rank_count);
        return header_bytes() + n * sizeof(RankSlot) + n * n * sizeof(Mailbox) + n * staging_size(rank_count, chunk) +
               n * n * 2 * letter_size(rank_count);
    }

    /// Makes a region in memory of `bytes(ranks, chunk)` bytes, aligned to `line_pair_bytes`. Steps are counted from `first_step`.
    static GroupRegion* create(void* memory, std::int32_t rank_count, std::size_t chunk, std::uint32_t first_step = 0) {
        auto* const region = new (memory) GroupRegion;
        region->ranks = rank_count;
        region->chunk_bytes = chunk;
        region->letter_bytes = letter_size(rank_count);
        for (std::int32_t rank = 0; rank < rank_count; ++rank) {
            new (&region->slot(rank)) RankSlot;
            for (auto& step : region->slot(rank).steps) step.arrived.store(first_step, std::memory_order_relaxed);
        }
        for (std::int32_t to = 0; to < rank_count; ++to) {
            for (std::int32_t from = 0; from < rank_count; ++from) new (&region->mailbox(from, to)) Mailbox;
        }
        return region;
    }

    [[nodiscard]] RankSlot& slot(std::int32_t rank) {
        return *reinterpret_cast<RankSlot*>(start() + header_bytes() + index(rank) * sizeof(RankSlot));
    }
    [[nodiscard]] Mailbox& mailbox(std::int32_t from, std::int32_t to) {
        auto const first = header_bytes() + index(ranks) * sizeof(RankSlot);
        return *reinterpret_cast<Mailbox*>(start() + first + pair(from, to) * sizeof(Mailbox));
    }
    /// The staging memory of a rank, or what two ranks use in turn.
    [[nodiscard]] std::byte* staging(std::int32_t area) {
        return start() + staging_begin() + index(area) * staging_size(ranks, chunk_bytes);
    }
    [[nodiscard]] std::byte* letter(std::int32_t from, std::int32_t to, std::uint32_t parity) {
        return start() + staging_begin() + index(ranks) * staging_size(ranks, chunk_bytes) +
               (pair(from, to) * 2 + parity) * letter_bytes;
    }

private:
    [[nodiscard]] std::byte* start() { return reinterpret_cast<std::byte*>(this); }
    [[nodiscard]] static std::size_t index(std::int32_t rank) { return static_cast<std::size_t>(rank); }
    [[nodiscard]] std::size_t pair(std::int32_t from, std::int32_t to) const {
        return index(to) * index(ranks) + index(from);
    }
    [[nodiscard]] std::size_t staging_begin() const {
        return header_bytes() + index(ranks) * sizeof(RankSlot) + index(ranks) * index(ranks) * sizeof(Mailbox);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
