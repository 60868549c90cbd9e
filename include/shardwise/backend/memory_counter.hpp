// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>

#include <atomic>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Counts what a context has allocated, so that a prediction can be held against it. Safe to use from several threads.
///
/// Units  bytes as asked for, without what alignment adds
class MemoryCounter {
public:
    void add(Bytes bytes) {
        auto const now = current_.fetch_add(bytes.count(), std::memory_order_relaxed) + bytes.count();
        auto peak = peak_.load(std::memory_order_relaxed);
        while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
        }
    }
    void remove(Bytes bytes) { current_.fetch_sub(bytes.count(), std::memory_order_relaxed); }

    [[nodiscard]] Bytes current() const { return Bytes{current_.load(std::memory_order_relaxed)}; }
    [[nodiscard]] Bytes peak() const { return Bytes{peak_.load(std::memory_order_relaxed)}; }
    /// Forgets the peak so far: the next one is counted from what is allocated now.
    void restart_peak() { peak_.store(current_.load(std::memory_order_relaxed), std::memory_order_relaxed); }

private:
    std::atomic<std::int64_t> current_{0};
    std::atomic<std::int64_t> peak_{0};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
