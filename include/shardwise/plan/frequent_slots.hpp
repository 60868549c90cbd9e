// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/cut_memory.hpp>
#include <shardwise/plan/layer_slots.hpp>
#include <shardwise/plan/plan_layout.hpp>
#include <shardwise/plan/slot_prices.hpp>
#include <shardwise/plan/step_cost.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What the search for stages is given.
struct StageTask {
    LayerSlots const& slots;
    PlanDegrees const& degrees;
    PlanSites const& sites;
    /// Of each stage.
    List<SlotPrices const*> const& prices;
    CutMemory const& memory;
    StepSetting const& setting;
};

/// The slots of the most frequent kind: how many of them each stage has capacity for, and what all of them take at least.
/// A bound on stages that costs next to nothing beside finding them.
class FrequentSlots {
public:
    explicit FrequentSlots(StageTask const& task) : task_(task), kind_(task.slots.most_frequent()) {
        for (auto const kind : task.slots.kind_of) count_ += kind == kind_ ? 1 : 0;
        for (std::size_t stage = 0; stage < task.prices.size(); ++stage) capacity_.push_back(most_of(stage));
    }

    [[nodiscard]] std::size_t kind() const { return kind_; }

    /// Their least time on stages that take `most` seconds at most; negative where these do not hold them.
    [[nodiscard]] double shortest_sum(double most) const {
        double sum = 0.0;
        double passed = -1.0;  // (a stage may take no time at all)
        for (auto left = count_; left > 0;) {
            double next = -1.0;
            for (auto const* prices : task_.prices) {
                auto const own = prices->seconds[kind_];
                if (own > passed && (next < 0.0 || own < next)) next = own;
            }
            if (next < 0.0) return -1.0;
            for (std::size_t stage = 0; stage < capacity_.size() && left > 0; ++stage) {
                if (task_.prices[stage]->seconds[kind_] != next) continue;
                auto slots = capacity_[stage] < left ? capacity_[stage] : left;
                if (static_cast<double>(slots) * next > most) slots = static_cast<std::int64_t>(most / next);
                sum += static_cast<double>(slots) * next;
                left -= slots;
            }
            passed = next;
        }
        return sum;
    }

private:
    /// The most that a stage has capacity for.
    std::int64_t most_of(std::size_t stage) const {
        // With the same memory a later stage keeps no more micro-batches; the first receives no message.
        bool const is_like_last = stage > 1 && task_.sites.capacities[stage] == task_.sites.capacities[stage - 1];
        auto low = is_like_last ? capacity_.back() : 0;
        auto high = is_like_last && low < count_ && !holds(stage, low + 1) ? low + 1 : count_ + 1;
        while (high - low > 1) {
            auto const middle = low + (high - low) / 2;
            (holds(stage, middle) ? low : high) = middle;
        }
        return low;
    }
    bool holds(std::size_t stage, std::int64_t slots) const {
        for (auto const& rank : task_.memory.ranks) {
            StageNeeds needs;
            needs.add(rank.kinds()[kind_], slots);
            auto const terms =
                rank.stage_memory(needs, static_cast<std::int64_t>(stage), task_.degrees.dp, task_.degrees.zero);
            if (task_.sites.capacities[stage] < terms.total()) return false;
        }
        return true;
    }

    StageTask const& task_;
    std::size_t kind_;
    std::int64_t count_ = 0;
    List<std::int64_t> capacity_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
