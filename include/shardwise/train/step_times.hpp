// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where the time of a step went on one rank: data, compute, exposed and optimizer are all of it.
///
/// Units  seconds
struct StepTimes {
    double step = 0.0;
    /// Reading the batch.
    double data = 0.0;
    /// Forward and backward passes, sums of gradients, their norm.
    double compute = 0.0;
    /// Calls to other ranks, waits for them included.
    double communication = 0.0;
    /// Of communication, what nothing was computed beside: all of it so far.
    double exposed = 0.0;
    double optimizer = 0.0;

    StepTimes& operator+=(StepTimes const& more) {
        step += more.step;
        data += more.data;
        compute += more.compute;
        communication += more.communication;
        exposed += more.exposed;
        optimizer += more.optimizer;
        return *this;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
