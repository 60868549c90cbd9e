// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one value was over many looks.
struct SeriesSummary {
    std::uint64_t count = 0;
    double min = 0.0;
    double mean = 0.0;
    double max = 0.0;
    /// The median and the 95th percentile, interpolated linearly as numpy does.
    double p50 = 0.0;
    double p95 = 0.0;
};

/// Sums a value up in fixed memory: count, extremes and mean are exact for ever, percentiles up to 4,096 looks; then every
/// second look counts for them, then every fourth, and so on.
///
/// Memory  32 KiB, taken at once
class RunningSeries {
public:
    RunningSeries() { kept_.reserve(capacity); }

    void add(double value) {
        if (!std::isfinite(value)) return;
        min_ = count_ == 0 ? value : std::min(min_, value);
        max_ = count_ == 0 ? value : std::max(max_, value);
        sum_ += value;
        if (count_++ % stride_ != 0) return;
        kept_.push_back(value);
        if (kept_.size() < capacity) return;
        for (std::size_t i = 0; i < capacity / 2; ++i) kept_[i] = kept_[2 * i];
        kept_.resize(capacity / 2);
        stride_ *= 2;
    }
    void add(std::optional<double> value) {
        if (value) add(*value);
    }

    /// Nothing where there was no value.
    [[nodiscard]] std::optional<SeriesSummary> summary() const {
        if (count_ == 0) return std::nullopt;
        auto sorted = kept_;
        std::sort(sorted.begin(), sorted.end());
        auto const percentile = [&sorted](double share) {
            auto const place = share * static_cast<double>(sorted.size() - 1);
            auto const below = static_cast<std::size_t>(place);
            auto const above = std::min(below + 1, sorted.size() - 1);
            return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
        };
        return SeriesSummary{count_, min_, sum_ / static_cast<double>(count_), max_, percentile(0.5), percentile(0.95)};
    }

private:
    static constexpr std::size_t capacity = 4096;

    std::uint64_t count_ = 0;
    std::uint64_t stride_ = 1;
    double min_ = 0.0;
    double max_ = 0.0;
    double sum_ = 0.0;
    std::vector<double> kept_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
