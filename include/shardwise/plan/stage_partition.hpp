#pragma once

#include <shardwise/plan/cut_memory.hpp>
#include <shardwise/plan/plan_layout.hpp>
#include <shardwise/plan/slot_prices.hpp>
#include <shardwise/plan/step_cost.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0 {

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

/// The stages with the shortest step: each stage's first slot and, last, the number of slots; empty where nothing fits, or
/// nothing that is as fast as was asked for.
struct StageBounds {
    List<std::int64_t> begins;
    double seconds = 0.0;
};

namespace detail {

/// What of a step depends on where its stages are cut.
struct PipelineTimes {
    double sum = 0.0;
    double slowest = 0.0;
    double reduce = 0.0;
    double update = 0.0;

    [[nodiscard]] bool is_no_worse(PipelineTimes const& other) const {
        // Sums of the same layers in another order differ in the last bits.
        constexpr double rounding = 1.0 + 1e-13;
        return sum <= other.sum * rounding && slowest <= other.slowest * rounding && reduce <= other.reduce * rounding &&
               update <= other.update * rounding;
    }
    /// The same step as step_cost's.
    [[nodiscard]] double seconds(double micro_batches, StepSetting const& setting) const {
        auto const filling = setting.pass == Pass::decode ? kept_full(sum, slowest, micro_batches)
                                                          : filled_once(sum, slowest, micro_batches);
        return filling + reduce + update + setting.efficiency.step_seconds;
    }
};

/// Some consecutive slots as a stage, grown from the last one forwards.
struct GrowingStage {
    double seconds = 0.0;
    double backward = 0.0;
    double dense_parameters = 0.0;
    double expert_parameters = 0.0;
    double output_bytes = 0.0;

    void add(StageCost const& slot, double slot_seconds) {
        seconds += slot_seconds;
        backward += slot.backward_seconds;
        dense_parameters += slot.weights.dense_parameters;
        expert_parameters += slot.weights.expert_parameters;
    }
    [[nodiscard]] StageCost cost() const {
        StageCost cost{.backward_seconds = backward, .output_bytes = output_bytes};
        cost.terms.compute = seconds;
        cost.weights.dense_parameters = dense_parameters;
        cost.weights.expert_parameters = expert_parameters;
        return cost;
    }
};

/// Dynamic programming over stages and slots. Of the ways to cut what lies before a slot only those are kept that no other
/// one beats in every term of the step.
class StageSearch {
public:
    explicit StageSearch(StageTask const& task)
        : task_(task), stages_(static_cast<std::size_t>(task.degrees.pp)), slots_(static_cast<std::size_t>(task.slots.size())),
          fronts_(stages_ * (slots_ + 1)), rest_(slots_ + 1, 0.0) {
        for (auto slot = slots_; slot-- > 0;) {
            auto const kind = task.slots.kind_of[slot];
            auto least = task.prices[0]->seconds[kind];
            for (auto const* prices : task.prices) least = prices->seconds[kind] < least ? prices->seconds[kind] : least;
            rest_[slot] = rest_[slot + 1] + least;
        }
    }

    /// The best stages whose step takes `limit` seconds at most.
    StageBounds find(double limit) {
        limit_ = limit * (1.0 + 1e-12);
        for (std::size_t stage = 0; stage < stages_; ++stage) {
            bool const is_last = stage + 1 == stages_;
            for (auto end = is_last ? slots_ : stage + 1; end + (stages_ - 1 - stage) <= slots_; ++end) grow(stage, end);
        }
        auto const& finished = front(stages_ - 1, slots_);
        if (finished.empty()) return {};
        std::size_t best = 0;
        for (std::size_t i = 1; i < finished.size(); ++i) {
            if (seconds(finished[i].times) < seconds(finished[best].times)) best = i;
        }
        StageBounds bounds{List<std::int64_t>(stages_ + 1), seconds(finished[best].times)};
        auto end = slots_;
        for (auto stage = stages_; stage-- > 0;) {
            auto const& way = front(stage, end)[best];
            bounds.begins[stage + 1] = static_cast<std::int64_t>(end);
            best = way.before;
            end = way.begin;
        }
        return bounds;
    }

private:
    struct Way {
        PipelineTimes times{};
        std::size_t begin = 0;
        std::size_t before = 0;
    };

    List<Way>& front(std::size_t stage, std::size_t end) { return fronts_[stage * (slots_ + 1) + end]; }
    double seconds(PipelineTimes const& times) const {
        return times.seconds(static_cast<double>(task_.degrees.micro_batches), task_.setting);
    }

    /// All stages `stage` that end before slot `end`.
    void grow(std::size_t stage, std::size_t end) {
        auto const& prices = *task_.prices[stage];
        GrowingStage own;
        own.output_bytes = prices.kinds[task_.slots.kind_of[end - 1]].output_bytes;
        List<SlotNeeds> needs(task_.memory.ranks.size());
        auto const earliest = stage;
        for (auto begin = end; begin-- > earliest;) {
            auto const kind = task_.slots.kind_of[begin];
            own.add(prices.kinds[kind], prices.seconds[kind]);
            for (std::size_t i = 0; i < needs.size(); ++i) needs[i].add(task_.memory.ranks[i].kinds()[kind]);
            if (stage == 0 && begin > 0) continue;
            auto const times = stage_times(stage, own);
            auto alone = times;
            alone.sum += rest_[end];
            // Of a longer stage more is hidden, so that its reduction may take less.
            alone.reduce = 0.0;
            if (seconds(alone) > limit_) break;
            join(stage, begin, end, times, needs);
        }
    }

    PipelineTimes stage_times(std::size_t stage, GrowingStage const& own) const {
        auto const& site = task_.sites.stages[stage];
        auto const cost = own.cost();
        auto seconds = own.seconds;
        if (stage + 1 < stages_) seconds += stage_message_seconds(cost, site, task_.setting);
        PipelineTimes times{.sum = seconds, .slowest = seconds};
        if (task_.setting.pass == Pass::training) {
            times.reduce = data_parallel_seconds(cost, site, task_.degrees, task_.setting);
            times.update = optimizer_seconds(cost, site, task_.degrees, task_.setting);
        }
        return times;
    }

    /// Puts a stage behind every way to cut what lies before it.
    void join(std::size_t stage, std::size_t begin, std::size_t end, PipelineTimes const& own, List<SlotNeeds> const& needs) {
        int fits = -1;
        auto const try_way = [&](PipelineTimes const& before, std::size_t index) {
            auto const larger = [](double a, double b) { return a > b ? a : b; };
            Way way{{before.sum + own.sum, larger(before.slowest, own.slowest), larger(before.reduce, own.reduce),
                     larger(before.update, own.update)}, begin, index};
            auto whole = way.times;
            whole.sum += rest_[end];
            if (seconds(whole) > limit_) return;
            if (fits < 0) fits = has_room(stage, begin, end, needs) ? 1 : 0;
            if (fits == 1) keep(front(stage, end), way);
        };
        if (stage == 0) {
            try_way({}, 0);
            return;
        }
        auto const& earlier = front(stage - 1, begin);
        for (std::size_t i = 0; i < earlier.size() && fits != 0; ++i) try_way(earlier[i].times, i);
    }

    bool has_room(std::size_t stage, std::size_t begin, std::size_t end, List<SlotNeeds> const& needs) const {
        for (std::size_t i = 0; i < needs.size(); ++i) {
            auto held = needs[i];
            for (auto const& tie : task_.slots.ties) {
                auto const is_here = [&](std::int64_t slot) {
                    return slot >= static_cast<std::int64_t>(begin) && slot < static_cast<std::int64_t>(end);
                };
                if (is_here(tie.first) && is_here(tie.other)) held.drop(task_.memory.ranks[i].tie(tie.tie));
            }
            auto const terms = task_.memory.ranks[i].stage_memory(held, static_cast<std::int64_t>(stage), task_.degrees.dp,
                                                                  task_.degrees.zero);
            if (task_.sites.capacities[stage] < terms.total()) return false;
        }
        return true;
    }

    /// Of ways that are equally good the one that was found first stays: its last stage holds less.
    static void keep(List<Way>& ways, Way const& way) {
        for (auto const& known : ways) {
            if (known.times.is_no_worse(way.times)) return;
        }
        std::size_t kept = 0;
        for (std::size_t i = 0; i < ways.size(); ++i) {
            if (!way.times.is_no_worse(ways[i].times)) ways[kept++] = ways[i];
        }
        ways.resize(kept);
        ways.push_back(way);
    }

    StageTask const& task_;
    std::size_t stages_;
    std::size_t slots_;
    List<List<Way>> fronts_;
    /// The least time of all slots from one on.
    List<double> rest_;
    double limit_ = 0.0;
};

}  // namespace detail

/// The consecutive stages with the shortest step among those that fit, if any takes `limit` seconds at most.
[[nodiscard]] inline StageBounds find_stages(StageTask const& task, double limit) {
    return detail::StageSearch(task).find(limit);
}

}  // namespace shardwise::inline v0
