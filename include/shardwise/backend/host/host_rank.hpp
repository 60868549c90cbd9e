// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/core_pin.hpp>

#include <algorithm>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a context of one of `ranks` ranks of a machine is made of that share `threads` threads (0: as many as this one may use
/// cores). Where all of these are taken, each thread has its own: elsewhere the system may move them about.
[[nodiscard]] inline HostOptions rank_options(int threads, int ranks, int rank) {
    auto const own = std::max(1, (threads > 0 ? threads : detail::default_threads()) / ranks);
    bool const is_pinned = own * ranks > 1 && own * ranks == detail::allowed_cores();
    return {.threads = own, .is_pinned = is_pinned, .first_core = rank * own};
}
/// The core of the thread that uses a context made of these options, for CorePin.
[[nodiscard]] inline int core_of(HostOptions const& options) {
    return options.is_pinned ? options.first_core : -1;
}

/// What a rank computes with on this machine: a context and a stream of it, and its own thread on its own core where the options pin.
/// It is made, used and left by that thread.
struct HostRank {
    explicit HostRank(HostOptions const& options)
        : context(options), pin(core_of(options)), stream(context.make_stream()) {}

    HostContext context;
    // Behind the context, whose threads are not to stay on the same core.
    CorePin pin;
    HostStream stream;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
