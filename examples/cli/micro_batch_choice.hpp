// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace shardwise::cli {

/// The micro-batches that are measured where the largest is `most`: the powers of two below it, and itself.
[[nodiscard]] inline std::vector<std::int64_t> micro_batches_to_measure(std::int64_t most) {
    std::vector<std::int64_t> out;
    for (std::int64_t size = 1; size < most; size *= 2) out.push_back(size);
    out.push_back(most);
    return out;
}

/// The micro-batch whose time is the least, of several the first. `measure(size)` gives the time of one, the same on all ranks, and is called
/// once for each.
///
/// Errors  the first of `measure`, after which nothing is measured
template <class Measure>
[[nodiscard]] Result<std::int64_t> fastest_micro_batch(std::vector<std::int64_t> const& sizes, Measure const& measure) {
    std::int64_t best = 0;
    auto least = std::chrono::nanoseconds::max();
    for (auto const size : sizes) {
        Result<std::chrono::nanoseconds> const time = measure(size);
        if (!time) return time.error();
        if (best != 0 && *time >= least) continue;
        least = *time;
        best = size;
    }
    return best;
}

}  // namespace shardwise::cli
