// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How much a stage does in a second on the devices of each class, and how much stages do together at most.
class ClassRates {
public:
    void clear() { rates_.clear(); }
    void add(std::int64_t devices, double rate) {
        auto place = rates_.size();
        while (place > 0 && rate > rates_[place - 1].rate) --place;
        (void)rates_.insert(rates_.begin() + place, {devices, rate});
    }
    /// Of `stages` stages of so many ranks each, on the fastest devices that the others leave: the i-th has no better ones
    /// than the last of the i * ranks fastest.
    [[nodiscard]] double together(std::int64_t ranks, std::int64_t stages) const {
        double sum = 0.0;
        std::int64_t devices = 0;
        std::int64_t passed = 0;
        for (auto const& known : rates_) {
            devices += known.devices;
            auto const end = devices / ranks < stages ? devices / ranks : stages;
            sum += static_cast<double>(end - passed) * known.rate;
            passed = end;
        }
        return sum;
    }

private:
    struct Rate {
        std::int64_t devices = 0;
        double rate = 0.0;
    };
    /// The fastest first.
    List<Rate> rates_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
