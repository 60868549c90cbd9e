// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/comm/detail/add_floats.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

/// What the machine lets two ranks do: two threads on cores of their own that sum floats without a check, a deadline or a
/// name. Each copies its numbers to one of two places, raises its flag, waits for the other's and adds what lies in the
/// other place; in the next call it writes where it has just read, which its cache holds. It says which ratio the machine
/// allows.
class BareSum {
public:
    explicit BareSum(std::int64_t max_bytes) {
        for (auto& place : places_) place.assign(static_cast<std::size_t>(max_bytes) / sizeof(float), 0.0F);
    }

    /// Microseconds of a call, the better of two batches.
    [[nodiscard]] double time(std::vector<std::vector<float>>& data, std::int64_t bytes, int calls) {
        std::thread other([&] { (void)run(1, data[1].data(), bytes, calls); });
        auto const best = run(0, data[0].data(), bytes, calls);
        other.join();
        return best;
    }

private:
    struct alignas(256) Flag {
        std::atomic<std::int64_t> calls{0};
    };

    double run(std::size_t rank, float* data, std::int64_t bytes, int calls) {
        shardwise::CorePin const pin(static_cast<int>(rank));
        double best = std::numeric_limits<double>::max();
        for (int batch = 0; batch < 3; ++batch) {
            auto const start = std::chrono::steady_clock::now();
            for (int call = 0; call < calls; ++call) sum(rank, data, bytes);
            auto const time = std::chrono::steady_clock::now() - start;
            // The first fills the caches.
            if (batch > 0) best = std::min(best, std::chrono::duration<double, std::micro>(time).count() / calls);
        }
        return best;
    }

    void sum(std::size_t rank, float* data, std::int64_t bytes) {
        auto const call = flags_[rank].calls.load(std::memory_order_relaxed) + 1;
        auto const own = rank ^ static_cast<std::size_t>(call % 2);
        std::memcpy(places_[own].data(), data, static_cast<std::size_t>(bytes));
        flags_[rank].calls.store(call, std::memory_order_release);
        while (flags_[1 - rank].calls.load(std::memory_order_acquire) < call) {
        }
        shardwise::detail::add_floats(data, data, places_[1 - own].data(),
                                      bytes / static_cast<std::int64_t>(sizeof(float)));
    }

    std::array<Flag, 2> flags_;
    std::array<std::vector<float>, 2> places_;
};
