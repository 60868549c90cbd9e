// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/threads.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace shardwise::testing {

/// Runs body(communicator) on as many threads as ranks and returns what each gave.
template <class Body>
auto on_threads(std::int32_t ranks, Body const& body, std::chrono::seconds timeout = std::chrono::seconds(20)) {
    using Value = decltype(body(std::declval<Threads&>()));
    auto const group = ThreadsGroup::create(ranks, {.timeout = timeout, .checks_calls = true});
    std::vector<Value> out(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            auto comm = group->join(rank);
            out[static_cast<std::size_t>(rank)] = body(*comm);
        });
    }
    for (auto& thread : threads) thread.join();
    return out;
}

}  // namespace shardwise::testing
