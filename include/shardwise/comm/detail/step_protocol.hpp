// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <atomic>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How ranks hand each other staging memory in steps: the whole synchronisation of the collectives, written on its own so
/// that a test can explore it with atomics that read stale values (tests/comm/explorer.hpp).
///
/// Before step s + 1 a rank writes its staging half `half_to_write(s)`, then publishes s + 1, waits until all have published
/// s + 1, and reads the others' `half_to_read(s + 1)`, the same half. A rank that has published s + 2 is done with reading
/// what was written before s + 1, and nobody writes that half again before all have published s + 2: two halves and one wait
/// per step are enough. Long pieces go to places of a ring instead (staging_ring.hpp), of which two in a row never overlap:
/// what holds for two halves holds for them.
///
/// Two ranks need no second half: each writes next where the other wrote last, `area_to_write`, which it has just read itself. So
/// each area is used by one rank at a time and handed over by the publishing alone; but a rank must not read what it wrote itself
/// once it is published. Caches hand a modified line to its reader with the right to write it (AMD EPYC 9004): who writes where
/// it read has the lines already, and who writes again where it wrote must fetch them back. 16 KB take 0.7 microseconds this way
/// and 1.8 in halves.
///
/// Source  bench/bench_all_reduce.cpp
struct StepProtocol {
    [[nodiscard]] static constexpr bool swaps(std::int32_t ranks) { return ranks == 2; }
    /// Whose staging memory a rank writes before step + 1.
    [[nodiscard]] static constexpr std::int32_t area_to_write(std::int32_t rank, std::int32_t ranks,
                                                              std::uint32_t step) {
        return swaps(ranks) && step % 2 == 1 ? 1 - rank : rank;
    }
    /// Where the others find what a rank wrote before `step`.
    [[nodiscard]] static constexpr std::int32_t area_to_read(std::int32_t rank, std::int32_t ranks,
                                                             std::uint32_t step) {
        return area_to_write(rank, ranks, step - 1);
    }
    [[nodiscard]] static constexpr std::uint32_t half_to_write(std::uint32_t step) { return step % 2; }
    [[nodiscard]] static constexpr std::uint32_t half_to_read(std::uint32_t step) { return (step - 1) % 2; }

    /// Lets the others see everything that this rank wrote before.
    template <class Atomic>
    static void publish(Atomic& arrived, std::uint32_t step) {
        arrived.store(step, std::memory_order_release);
    }
    /// True once a rank has published this step or a later one; then everything that it wrote before is visible. Steps
    /// wrap around: ranks are never more than one step apart.
    template <class Atomic>
    [[nodiscard]] static bool has_published(Atomic const& arrived, std::uint32_t step) {
        return static_cast<std::int32_t>(arrived.load(std::memory_order_acquire) - step) >= 0;
    }
};

/// How one rank hands letters to another: two halves, counted by the writer and by the reader. Counts wrap around.
struct MailProtocol {
    [[nodiscard]] static constexpr std::uint32_t half(std::uint32_t letter) { return letter % 2; }

    /// True where the half of the next letter is empty: the reader is done with the letter before the last.
    template <class Atomic>
    [[nodiscard]] static bool may_write(Atomic const& read, std::uint32_t letter) {
        return letter - read.load(std::memory_order_acquire) < 2;
    }
    template <class Atomic>
    [[nodiscard]] static bool has_letter(Atomic const& written, std::uint32_t letter) {
        return written.load(std::memory_order_acquire) != letter;
    }
    /// Ends the writing, or the reading, of a letter.
    template <class Atomic>
    static void pass_on(Atomic& count, std::uint32_t letter) {
        count.store(letter + 1, std::memory_order_release);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
