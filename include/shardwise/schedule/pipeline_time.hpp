// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The time of a pipeline that is filled and drained once, as by a prompt or a training step; `sum` is one micro-batch
/// through all stages, `slowest` through the slowest of them.
///
/// The slowest stage works for every micro-batch and the others are passed once; chunks that take turns divide that.
/// Exact for GPipe, one-forward-one-backward and interleaved tables whose stages are alike: their bubble is (p - 1) /
/// (chunks * m) of the work.
///
/// Units   those of the arguments
/// Source  Narayanan et al., SC21 (arXiv 2104.04473), section 2.2
[[nodiscard]] constexpr double filled_once(double sum, double slowest, double micro_batches, double chunks = 1.0) {
    return micro_batches * slowest + (sum - slowest) / chunks;
}

/// The time of a turn in a pipeline that is kept full, as by decoding: a micro-batch's next turn comes when it has
/// passed all stages and the slowest stage has served all others.
[[nodiscard]] constexpr double kept_full(double sum, double slowest, double micro_batches) {
    auto const served = micro_batches * slowest;
    return sum < served ? served : sum;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
