// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/core/deadline.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The shortest of a few calls of `pass(deadline)`, after one that is not counted, by the slowest rank of each. All ranks call it and get
/// the same.
///
/// Errors  those of `pass`, and as a collective
template <Communicator C, class Pass>
[[nodiscard]] Result<std::chrono::nanoseconds> measure_passes(C& comm, std::chrono::nanoseconds timeout,
                                                              Pass const& pass) {
    constexpr int calls = 3;
    auto least = std::chrono::nanoseconds::max();
    for (int i = 0; i <= calls; ++i) {
        auto const begin = std::chrono::steady_clock::now();
        if (auto const done = pass(Deadline::after(timeout)); !done) return done.error();
        std::int64_t time = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
        if (auto const done = all_reduce(comm, TensorView<std::int64_t, 1, Host>{&time, {1}}, ReduceOp::max); !done)
            return done.error();
        if (i > 0) least = std::min(least, std::chrono::nanoseconds(time));
    }
    return least;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
