// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/host_rank.hpp>
#include <shardwise/calibrate/rate_probe.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/op/collective_load.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How ranks that are threads of this process add up what they have.
struct AllReduceRates {
    std::int32_t ranks = 1;
    /// Of a sum that is too short for its bytes to count.
    ///
    /// Units  seconds
    double latency = 0.0;
    /// Of what a rank takes from the others during a long sum.
    ///
    /// Units  bytes per second
    double bandwidth = 0.0;
};

namespace detail {

/// The shortest time of one all-reduce of `elements` floats, of batches of `calls`. Every rank calls it alike.
[[nodiscard]] inline Result<double> time_all_reduce(Threads& comm, std::int64_t elements, int calls,
                                                    RateProbe const& probe) {
    using Clock = std::chrono::steady_clock;
    std::vector<float> data(static_cast<std::size_t>(elements), 0.0F);
    TensorView<float, 1, Host> const view(data.data(), {elements});
    double best = 1e30;
    auto const begin = Clock::now();
    // Two batches at least, of which the first only warms up; rank 0 decides for all whether there is time for another.
    for (int batch = 0;; ++batch) {
        auto const start = Clock::now();
        for (int call = 0; call < calls; ++call) {
            if (auto const done = all_reduce(comm, view, ReduceOp::sum); !done) return done.error();
        }
        auto const seconds = std::chrono::duration<double>(Clock::now() - start).count() / calls;
        if (batch > 0) best = std::min(best, seconds);
        bool const is_done = batch > 0 && (Clock::now() - begin > probe.time || probe.deadline.has_passed());
        float ends = comm.rank() == 0 && is_done ? 1.0F : 0.0F;
        if (auto const done = all_reduce(comm, TensorView<float, 1, Host>(&ends, {1}), ReduceOp::max); !done)
            return done.error();
        if (ends > 0.0F) return std::max(best, 1e-9);
    }
}

}  // namespace detail

/// Measures sums over `ranks` threads; one rank has none.
///
/// Errors  invalid_argument for an impossible number of ranks; deadline_exceeded where a rank does not come
[[nodiscard]] inline Result<AllReduceRates> measure_all_reduce(std::int32_t ranks, RateProbe probe) {
    AllReduceRates rates{ranks, 0.0, 0.0};
    if (ranks == 1) return rates;
    constexpr std::int64_t short_elements = 256;
    constexpr std::int64_t long_elements = std::int64_t{1} << 20U;
    double brief = 0.0;
    double lengthy = 0.0;
    probe.time /= 2;
    auto const done = run_threads(
        ranks,
        [&](Threads& comm) -> Result<> {
            // As ranks run where they take all cores.
            CorePin const pin(core_of(rank_options(0, comm.size(), comm.rank())));
            auto const first = detail::time_all_reduce(comm, short_elements, 50, probe);
            if (!first) return first.error();
            auto const second = detail::time_all_reduce(comm, long_elements, 2, probe);
            if (!second) return second.error();
            if (comm.rank() == 0) brief = *first;
            if (comm.rank() == 0) lengthy = *second;
            return {};
        },
        {.timeout = std::max<std::chrono::nanoseconds>(probe.deadline.left(), std::chrono::milliseconds(1))});
    if (!done) return done.error();
    auto const load = all_reduce_load(static_cast<double>(long_elements) * sizeof(float), ranks);
    rates.latency = brief;
    rates.bandwidth = load.bytes / std::max(lengthy - load.messages * brief, lengthy / 10.0);
    return rates;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
