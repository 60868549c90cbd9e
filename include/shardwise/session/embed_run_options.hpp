// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/declared/embed.hpp>
#include <shardwise/session/run_options.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What embedding asks of runs: ranks, cores, devices.
[[nodiscard]] inline RunOptions run_options_of(EmbedOptions const& options) {
    RunOptions run;
    run.tp = options.tp;
    run.threads = options.threads;
    run.devices = options.devices;
    run.comm = options.comm;
    run.peer_sums = options.peer_sums;
    run.activations = options.activations;
    run.timeout = options.timeout;
    return run;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
