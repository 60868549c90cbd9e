// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/capacity_check.hpp>
#include <shardwise/plan/site_finder.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How many slots of the most frequent kind the stages of a cut hold at most that may take so long, on the best devices
/// that any layout gives each of them: what the slowest stage takes at least follows.
class StageShares {
public:
    StageShares(SiteFinder& sites, CapacityCheck const& capacity) : sites_(sites), capacity_(capacity) {}

    /// False where nothing is known of the stages: all devices are alike, or unlike in too many ways.
    [[nodiscard]] bool is_useful() { return !sites_.is_uniform() && !sites_.reaches().empty(); }

    /// What the slowest stage takes at least, and `least` at least; negative where some slots do not fit or it takes
    /// more than `most`. `seconds` are those of one slot on each class of devices, `bytes` those of micro-batches.
    [[nodiscard]] double min_slowest(HeldBytes const& held, PlanDegrees const& degrees, SlotBytes const* bytes,
                                     List<double> const& seconds, double least, double most) {
        auto found = -1.0;
        for (auto const& reach : sites_.reaches()) {
            share_out(reach, held, degrees, bytes, seconds);
            auto const slowest = longest(least, most);
            if (slowest >= 0.0 && (found < 0.0 || slowest < found)) found = slowest;
        }
        return found;
    }

private:
    /// What a stage does with slots of the kind.
    struct Share {
        /// In a second.
        double rate = 0.0;
        /// In whole slots.
        double most = 0.0;
    };
    /// The best of some classes.
    struct Best {
        std::uint64_t classes = 0;
        double seconds = 0.0;
        double memory = 0.0;
    };

    void share_out(OrderReach const& reach, HeldBytes const& held, PlanDegrees const& degrees, SlotBytes const* bytes,
                   List<double> const& seconds) {
        auto const kind = capacity_.most_frequent();
        auto const ranks = degrees.ranks() / degrees.pp;
        auto const left_out = reach.left_out(degrees.tp, degrees.ep);
        shares_.clear();
        Best first;
        Best last;
        for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
            auto const classes = reach.of(stage, ranks, left_out);
            if (first.classes != classes.first) first = best_of(classes.first, seconds);
            if (last.classes != classes.last) last = best_of(classes.last, seconds);
            auto const slot = first.seconds < last.seconds ? last.seconds : first.seconds;
            auto const memory = first.memory < last.memory ? first.memory : last.memory;
            shares_.push_back({(1.0 + 1e-9) / slot, capacity_.max_slots(held, degrees, bytes, stage, memory, kind)});
        }
    }
    [[nodiscard]] Best best_of(std::uint64_t classes, List<double> const& seconds) const {
        Best best{classes, -1.0, 0.0};
        for (auto left = classes; left != 0; left &= left - 1) {
            auto const index = static_cast<std::size_t>(std::countr_zero(left));
            auto const memory = sites_.classes().memory_of(left & (~left + 1));
            if (best.seconds < 0.0 || seconds[index] < best.seconds) best.seconds = seconds[index];
            if (best.memory < memory) best.memory = memory;
        }
        return best;
    }
    [[nodiscard]] bool holds_all(double longest) const {
        auto left = capacity_.slots_of(capacity_.most_frequent());
        for (auto const& share : shares_) {
            auto const passed = longest * share.rate;
            left -= passed < share.most ? static_cast<double>(static_cast<std::int64_t>(passed)) : share.most;
        }
        return left <= 0.0;
    }
    [[nodiscard]] double longest(double least, double most) const {
        if (!holds_all(most)) return -1.0;
        if (holds_all(least)) return least;
        auto low = least;
        auto high = low > 0.0 ? 2.0 * low : 1e-9;
        for (; !holds_all(high); high *= 2.0) low = high;
        for (int i = 0; i < 4; ++i) {
            auto const middle = low + (high - low) / 2.0;
            (holds_all(middle) ? high : low) = middle;
        }
        return low;
    }

    SiteFinder& sites_;
    CapacityCheck const& capacity_;
    List<Share> shares_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
