// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/order_experts_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int order_threads = 256;

/// A block finds an expert's rows: each thread looks through some of the pairs, for those of the expert and of those before it. Every
/// expert reads all ids, which a cache holds; nothing is added in an order that could differ.
template <int threads>
__global__ void __launch_bounds__(threads) order_pairs(OrderExpertsCall call) {
    // Pairs of experts before this one in the upper half, its own in the lower.
    __shared__ std::int64_t counts[threads];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const pairs = call.tokens * call.chosen;
    auto const share = (pairs - 1) / threads + 1;
    // Neither overflows: shares are of all pairs, rounded up.
    auto const begin = static_cast<std::int64_t>(share) * thread;
    auto const end = begin + share < pairs ? begin + share : static_cast<std::int64_t>(pairs);
    for (auto expert = static_cast<int>(blockIdx.x); expert < call.experts; expert += static_cast<int>(gridDim.x)) {
        auto const visit = [&](auto const& body) {
            if (begin >= end) return;
            auto token = static_cast<std::int32_t>(begin / call.chosen);
            auto choice = static_cast<std::int32_t>(begin - static_cast<std::int64_t>(token) * call.chosen);
            for (auto pair = begin; pair < end; ++pair) {
                body(pair, token, call.ids[token * call.ids_row + choice]);
                if (++choice == call.chosen) {
                    choice = 0;
                    ++token;
                }
            }
        };
        std::int64_t own = 0;
        visit([&](std::int64_t, std::int32_t, std::int32_t id) {
            own += id < expert ? std::int64_t{1} << 32 : id == expert ? 1 : 0;
        });
        counts[thread] = own;
        __syncthreads();
        for (int step = 1; step < threads; step *= 2) {
            auto const before = thread < step ? 0 : counts[thread - step];
            __syncthreads();
            counts[thread] += before;
            __syncthreads();
        }
        auto const lower = [](std::int64_t count) { return static_cast<std::int32_t>(count & 0xFFFF'FFFF); };
        auto const all = counts[threads - 1];
        auto const first = static_cast<std::int32_t>(all >> 32);
        auto row = first + lower(counts[thread]) - lower(own);
        if (lower(own) > 0) {
            visit([&](std::int64_t pair, std::int32_t token, std::int32_t id) {
                if (id != expert) return;
                if (call.by == RoutingOrder::token_of_row) {
                    call.order[row] = token;
                } else {
                    call.order[pair] = row;
                }
                ++row;
            });
        }
        if (thread == 0) {
            call.first[expert] = first;
            if (expert == call.experts - 1) call.first[expert + 1] = first + lower(all);
        }
        // The next expert's counts come after the reads of this one's.
        __syncthreads();
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
