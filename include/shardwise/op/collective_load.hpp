// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How ranks hear from each other in a collective: in rounds, from one rank in each (over links), or from all others at once
/// (the communicators of comm/, in one step of staging memory or one exchange of messages).
enum class Reach : std::uint8_t { in_rounds, at_once };

/// What a rank takes from the other ranks in a collective; the mean over the ranks where their parts differ.
///
/// Units  bytes of data; what comes from several ranks at once is one message
struct CollectiveLoad {
    double messages = 0.0;
    double bytes = 0.0;

    friend constexpr bool operator==(CollectiveLoad const&, CollectiveLoad const&) = default;
};

/// The rounds in which a count of ranks doubles up to `ranks`.
[[nodiscard]] constexpr double doublings(std::int64_t ranks) {
    double rounds = 0.0;
    for (std::int64_t reached = 1; reached < ranks; reached *= 2) rounds += 1.0;
    return rounds;
}

/// An all-gather that leaves `bytes` on every rank; a reduce-scatter of `bytes` takes the same. In rounds: recursive doubling,
/// whose rounds are few and whose bytes are those of a ring.
///
/// Source  Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005
[[nodiscard]] constexpr CollectiveLoad gather_load(double bytes, std::int64_t ranks, Reach reach) {
    if (ranks <= 1) return {};
    auto const p = static_cast<double>(ranks);
    return {reach == Reach::at_once ? 1.0 : doublings(ranks), bytes * (p - 1.0) / p};
}

/// An all-reduce of `bytes` in which every rank takes all that the others have, and adds up.
[[nodiscard]] constexpr CollectiveLoad direct_sum_load(double bytes, std::int64_t ranks) {
    if (ranks <= 1) return {};
    return {1.0, static_cast<double>(ranks - 1) * bytes};
}

/// An all-reduce of `bytes` in which every rank adds up a part, and the parts are gathered.
[[nodiscard]] constexpr CollectiveLoad parted_sum_load(double bytes, std::int64_t ranks, Reach reach) {
    auto const gather = gather_load(bytes, ranks, reach);
    return {2.0 * gather.messages, 2.0 * gather.bytes};
}

/// Up to this size more than two ranks that reach each other at once sum directly: one wait instead of two.
///
/// Units   bytes
/// Source  bench/bench_all_reduce.cpp
inline constexpr std::int64_t direct_sum_bytes = 64 * 1024;

/// How the communicators of comm/ sum. Two ranks take as many bytes either way.
[[nodiscard]] constexpr bool is_summed_directly(double bytes, std::int64_t ranks) {
    return ranks <= 2 || bytes <= static_cast<double>(direct_sum_bytes);
}

/// An all-reduce as the communicators of comm/ make it.
[[nodiscard]] constexpr CollectiveLoad all_reduce_load(double bytes, std::int64_t ranks) {
    return is_summed_directly(bytes, ranks) ? direct_sum_load(bytes, ranks)
                                            : parted_sum_load(bytes, ranks, Reach::at_once);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
