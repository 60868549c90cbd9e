// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emulator.hpp"
#include "fake_memory.hpp"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>

namespace shardwise::testing {

/// Runs a kernel's first launches three times, with its threads in each order, and compares the bits that all memory then has. The
/// others run once, and so does a kernel beside which something else uses memory.
class ComparedOrders {
public:
    static constexpr int compared_launches = 2;
    static constexpr std::size_t most_bytes = std::size_t{4} << 20U;

    /// Held while something else than a kernel reads or writes the devices' memory.
    [[nodiscard]] std::shared_lock<std::shared_mutex> use() { return std::shared_lock(uses_); }

    /// `is_alone()`: no other stream has work, and the kernel waits for no other.
    template <class IsAlone>
    void run(std::string_view name, void const* kernel, FakeMemory& memory, IsAlone const& is_alone,
             std::int64_t blocks, int threads, int warp_size, std::function<void()> const& body) {
        std::unique_lock alone(uses_, std::try_to_lock);
        if (!alone.owns_lock() || !is_alone() || !takes(kernel)) {
            // Kernels of ranks wait for each other.
            if (alone.owns_lock()) alone.unlock();
            auto const used = use();
            return Emulator::run(blocks, threads, warp_size, body);
        }
        auto const lock = memory.hold();
        if (memory.total() > most_bytes) return Emulator::run(blocks, threads, warp_size, body);
        count(kernel);
        auto const before = memory.contents();
        Emulator::run(blocks, threads, warp_size, body, ThreadOrder::forwards);
        auto const after = memory.contents();
        for (auto const order : {ThreadOrder::backwards, ThreadOrder::shuffled}) {
            memory.put_back(before);
            Emulator::run(blocks, threads, warp_size, body, order);
            if (memory.contents() == after) continue;
            std::fprintf(stderr, "emulator: %s has other bits with its threads %s\n", std::string(name).c_str(),
                         order == ThreadOrder::backwards ? "backwards" : "shuffled");
            std::abort();
        }
    }
    /// The next launches are the first.
    void begin_again() {
        std::lock_guard const lock(mutex_);
        launches_.clear();
    }
    /// How many kernels have been compared since then.
    [[nodiscard]] std::int64_t kernels() {
        std::lock_guard const lock(mutex_);
        return static_cast<std::int64_t>(launches_.size());
    }

private:
    [[nodiscard]] bool takes(void const* kernel) {
        std::lock_guard const lock(mutex_);
        auto const found = launches_.find(kernel);
        return found == launches_.end() || found->second < compared_launches;
    }
    void count(void const* kernel) {
        std::lock_guard const lock(mutex_);
        ++launches_[kernel];
    }

    std::shared_mutex uses_;
    std::mutex mutex_;
    std::map<void const*, int> launches_;
};

}  // namespace shardwise::testing
