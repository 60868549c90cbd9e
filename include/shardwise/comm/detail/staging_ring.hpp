// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Which place of a ring of staging memory a step's piece takes. A place is written again no sooner than two claims later,
/// that is two steps later or more. A ring that is longer than the second-level cache leaves it by itself, and other cores
/// read it from the shared cache at twice the rate (bench/bench_all_reduce.cpp).
///
/// Ranks also lend each other their rings as a whole, for two steps: each writes its ring and publishes; each reads a part of all
/// rings, puts its answers in the place of what it read, and publishes; then each finds the answers in its own ring. So every
/// line passes between two ranks only and back, as the areas of two ranks do (StepProtocol), and nobody else uses a ring when
/// the second step is over: the next loan may begin at once. Before the first one somebody may still read a claimed place:
/// where the ring is not clear, the ranks take a step for that alone. Four ranks on two cores reduce 2 MB in 290 microseconds
/// this way, and in 465 where the answers go to claimed places, which all read.
///
/// Source  bench/bench_all_reduce.cpp
class StagingRing {
public:
    /// The shortest ring for which two pieces in a row never overlap.
    static constexpr std::size_t min_pieces = 3;

    /// Where the next `bytes` lie in a ring of `ring_bytes`, `min_pieces` times the longest piece or more. All ranks claim
    /// the same, so that all know each other's places.
    [[nodiscard]] constexpr std::size_t claim(std::size_t bytes, std::size_t ring_bytes) {
        auto const begin = next_ + bytes <= ring_bytes ? next_ : 0;
        next_ = begin + bytes;
        is_clear_ = false;
        return begin;
    }

    /// Whether nobody can be reading a claimed place.
    [[nodiscard]] constexpr bool is_clear() const { return is_clear_; }
    /// All ranks have published a step after that of the last claim.
    constexpr void clear() { *this = {}; }

private:
    std::size_t next_ = 0;
    bool is_clear_ = true;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
