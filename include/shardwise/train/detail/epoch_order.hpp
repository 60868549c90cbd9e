// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/train/distributed_sampler.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The order of the samples of one epoch, that which was asked for last. Ranks that are threads share it: they are in one epoch, since
/// none begins a step before all have read the last one's samples.
class EpochOrder {
public:
    explicit EpochOrder(DistributedSampler const& sampler) : sampler_(sampler) {}

    [[nodiscard]] std::int64_t size() const { return sampler_.samples(); }

    /// The samples [first, first + count) of an epoch's order. Of any thread.
    ///
    /// Errors  as DistributedSampler::order
    [[nodiscard]] Result<List<std::int64_t>> samples(std::int64_t epoch, std::int64_t first, std::int64_t count) {
        if (!sampler_.options().shuffles) {
            List<std::int64_t> out(static_cast<std::size_t>(count));
            for (std::int64_t i = 0; i < count; ++i) out[static_cast<std::size_t>(i)] = first + i;
            return out;
        }
        std::lock_guard const lock(mutex_);
        if (epoch != epoch_) {
            // Never two at a time.
            order_ = {};
            epoch_ = -1;
            auto order = sampler_.order(epoch);
            if (!order) return order.error();
            order_ = std::move(*order);
            epoch_ = epoch;
        }
        return List<std::int64_t>(order_.data() + first, order_.data() + first + count);
    }

    /// Whether an epoch's samples are known without being put in order first.
    [[nodiscard]] bool has(std::int64_t epoch) {
        std::lock_guard const lock(mutex_);
        return !sampler_.options().shuffles || epoch == epoch_;
    }

private:
    DistributedSampler sampler_;
    std::mutex mutex_;
    std::int64_t epoch_ = -1;
    List<std::int64_t> order_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
