#pragma once

#include <cstdint>

namespace shardwise::inline v0 {

/// A pipeline's time without its table: `sum` is one micro-batch through all stages, `slowest` through the slowest of them.
///
/// Units  those of the arguments

/// Filled and drained once, as a prompt or a training step is: the slowest stage works for every micro-batch, and the
/// others are passed once; chunks that take turns divide that. Exact for GPipe, one-forward-one-backward and interleaved
/// tables whose stages are alike: their bubble is (p - 1) / (chunks * m) of the work.
///
/// Source  Narayanan et al., SC21 (arXiv 2104.04473), section 2.2
[[nodiscard]] constexpr double filled_once(double sum, double slowest, double micro_batches, double chunks = 1.0) {
    return micro_batches * slowest + (sum - slowest) / chunks;
}

/// Kept full, as decoding does: a micro-batch's next turn comes when it has passed all stages and the slowest stage has
/// served all others.
[[nodiscard]] constexpr double kept_full(double sum, double slowest, double micro_batches) {
    auto const served = micro_batches * slowest;
    return sum < served ? served : sum;
}

}  // namespace shardwise::inline v0
