// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/cut_times.hpp>
#include <shardwise/plan/frequent_slots.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The stages with the shortest step: each stage's first slot and, last, the number of slots; empty where nothing
/// fits, or nothing that is as fast as was asked for.
struct StageBounds {
    List<std::int64_t> begins;
    double seconds = 0.0;
};

namespace detail {

/// Dynamic programming over stages and slots. Of the ways to cut what lies before a slot only those are kept that no
/// other one beats in every term of the step, and that may still become as fast as was asked for.
class StageSearch {
public:
    explicit StageSearch(StageTask const& task)
        : task_(task),
          stages_(static_cast<std::size_t>(task.degrees.pp)),
          slots_(static_cast<std::size_t>(task.slots.size())),
          rest_of_(stages_),
          messages_(stages_ + 1, 0.0) {
        find_rests();
        StageCost mean;
        if (is_training()) mean.weights = (1.0 / static_cast<double>(stages_)) * task.prices[0]->weights;
        for (auto stage = stages_; stage-- > 0;) {
            StageCost const least{.output_bytes = task.prices[stage]->message};
            auto const& site = task.sites.stages[stage];
            bool const is_last = stage + 1 == stages_;
            messages_[stage] =
                messages_[stage + 1] + (is_last ? 0.0 : stage_message_seconds(least, site, task.setting));
            auto const update = is_training() ? optimizer_seconds(mean, site, task.degrees, task.setting) : 0.0;
            auto const reduce = is_training() ? min_reduction(mean, site) : 0.0;
            if (is_last || update < least_.update) least_.update = update;
            if (is_last || reduce < least_.reduce) least_.reduce = reduce;
        }
        least_.sum = rest(0)[0] + messages_[0];
    }

    /// The best stages whose step takes `limit` seconds at most.
    StageBounds find(double limit) {
        constexpr double rounding = 1.0 + 1e-12;
        if (seconds(least_) > limit * rounding) return {};
        auto even = even_stages();
        if (seconds(least_) > limit * rounding) return {};
        if (!even.begins.empty()) {
            // As light as the heaviest stage can be, but for the order in which its layers were added up.
            if (even.seconds <= seconds(least_) * rounding) return even;
            if (stages_ == 1) return even.seconds <= limit * rounding ? even : StageBounds{};
            if (even.seconds < limit) limit = even.seconds;
        } else if (stages_ == 1) {
            return {};
        }
        limit_ = limit * rounding;
        if (!narrow() || !find_windows()) return {};
        fronts_.resize(stages_ * (slots_ + 1));
        for (std::size_t stage = 0; stage < stages_; ++stage) {
            bool const is_last = stage + 1 == stages_;
            auto const first = is_last ? slots_ : larger(stage + 1, first_begins_[stage + 1]);
            for (auto end = first; end <= last_ends_[stage]; ++end) grow(stage, end);
        }
        return best_way();
    }

private:
    struct Way {
        CutTimes times{};
        std::size_t begin = 0;
        std::size_t before = 0;
    };

    bool is_training() const { return task_.setting.pass == Pass::training; }
    List<Way>& front(std::size_t stage, std::size_t end) { return fronts_[stage * (slots_ + 1) + end]; }
    double seconds(CutTimes const& times) const {
        return times.seconds(static_cast<double>(task_.degrees.micro_batches), task_.setting);
    }
    /// What a step takes at least once the stages up to `stage`, which end before slot `end`, take this.
    double seconds_at_least(CutTimes times, std::size_t stage, std::size_t end) const {
        auto const after = stage + 1 < stages_ ? rest(stage + 1)[end] : 0.0;
        times = times.joined({.sum = after + messages_[stage + 1],
                              .slowest = least_.slowest,
                              .reduce = least_.reduce,
                              .update = least_.update});
        return seconds(times);
    }

    /// Some stage reduces at least the mean of the dense gradients, and some that of the experts', hidden as well as
    /// can be.
    double min_reduction(StageCost const& mean, StageSite const& site) const {
        auto dense = mean;
        dense.backward_seconds = dense.terms.compute = 1e300;
        auto experts = dense;
        dense.weights = dense.weights.dense_alone();
        experts.weights = experts.weights.experts_alone();
        auto const one = data_parallel_seconds(dense, site, task_.degrees, task_.setting);
        auto const other = data_parallel_seconds(experts, site, task_.degrees, task_.setting);
        return one > other ? one : other;
    }

    void take(GrowingStage& own, List<StageNeeds>& needs, std::size_t stage, std::size_t slot) const {
        auto const kind = task_.slots.kind_of[slot];
        own.add(task_.prices[stage]->kinds[kind], task_.prices[stage]->seconds[kind]);
        for (std::size_t i = 0; i < needs.size(); ++i) needs[i].add(task_.memory.ranks[i].kinds()[kind]);
    }
    GrowingStage stage_before(std::size_t stage, std::size_t end) const {
        GrowingStage own;
        own.output_bytes = task_.prices[stage]->kinds[task_.slots.kind_of[end - 1]].output_bytes;
        return own;
    }

    /// Stages as even in time as can be where all sites are alike, if they fit. Knows then how light the heaviest can
    /// be.
    StageBounds even_stages() {
        if (stages_ > 1 && !task_.sites.are_alike) return {};
        StageBounds bounds{List<std::int64_t>(stages_ + 1), 0.0};
        auto const& prices = *task_.prices[0];
        auto most = prices.total / static_cast<double>(stages_);
        if (most < prices.slowest) most = prices.slowest;
        most *= 1.0 - 1e-13;
        for (auto more = fill(most, bounds.begins); more > 0.0; more = fill(most, bounds.begins)) most = more;
        least_.slowest = most * (1.0 - 1e-13);
        CutTimes times;
        for (std::size_t stage = 0; stage < stages_; ++stage) {
            auto const begin = static_cast<std::size_t>(bounds.begins[stage]);
            auto const end = static_cast<std::size_t>(bounds.begins[stage + 1]);
            auto own = stage_before(stage, end);
            List<StageNeeds> needs(task_.memory.ranks.size());
            for (auto slot = end; slot-- > begin;) take(own, needs, stage, slot);
            times = times.joined(stage_times(stage, own));
            if (!has_capacity(stage, begin, end, needs)) return {};
        }
        bounds.seconds = seconds(times);
        return bounds;
    }

    /// Gives each stage as many slots as take `most` seconds together, its message included; 0 where they suffice,
    /// else the least that some stage would have to take for another slot.
    double fill(double most, List<std::int64_t>& begins) const {
        auto const& seconds = task_.prices[0]->seconds;
        std::size_t next = 0;
        double refused = 0.0;
        for (std::size_t stage = 0; stage < stages_; ++stage) {
            begins[stage] = static_cast<std::int64_t>(next);
            auto const left = stages_ - 1 - stage;
            auto sum = messages_[stage] - messages_[stage + 1];
            while (next + left < slots_) {
                sum += seconds[task_.slots.kind_of[next]];
                if (sum > most) {
                    if (refused <= 0.0 || sum < refused) refused = sum;
                    break;
                }
                ++next;
            }
            // Without a slot of its own a stage cannot be; the least that was refused is then no more than this slot.
            if (static_cast<std::int64_t>(next) == begins[stage]) return refused;
        }
        begins[stages_] = static_cast<std::int64_t>(next);
        return next == slots_ ? 0.0 : refused;
    }

    /// The longest that a stage may take in a step of `limit` seconds, with some slack for rounding.
    double slowest_within(double limit) const {
        auto const fits = [&](double slowest) {
            auto times = least_;
            times.slowest = slowest;
            // The slowest stage is one of those that are passed.
            if (times.sum < slowest) times.sum = slowest;
            return seconds(times) <= limit;
        };
        auto low = least_.slowest;
        auto high = least_.sum > low ? least_.sum : low;
        if (high < 1e-9) high = 1e-9;
        while (fits(high)) {
            if (high > 1e150) return high;
            low = high;
            high *= 2.0;
        }
        for (int i = 0; i < 40; ++i) {
            auto const middle = low + (high - low) / 2.0;
            (fits(middle) ? low : high) = middle;
        }
        return high * (1.0 + 1e-9);
    }

    /// Finds how long a stage may take, and what all of them take at least: the fastest stages hold only so many slots
    /// in this time and in their memory. False where no stages are as fast as was asked for.
    bool narrow() {
        most_ = slowest_within(limit_);
        if (stages_ == 1) return true;
        FrequentSlots const frequent(task_);
        double others = 0.0;
        for (std::size_t slot = 0; slot < slots_; ++slot) {
            if (task_.slots.kind_of[slot] != frequent.kind()) others += rest(0)[slot] - rest(0)[slot + 1];
        }
        for (int i = 0; i < max_narrowed; ++i) {
            auto const sum = frequent.shortest_sum(most_);
            if (sum < 0.0) return false;
            auto const whole = (sum + others) * (1.0 - 1e-12) + messages_[0];
            if (whole <= least_.sum) return true;
            least_.sum = whole;
            if (seconds(least_) > limit_) return false;
            most_ = slowest_within(limit_);
        }
        return true;
    }

    /// Finds how far stages reach that each take all that their memory and the longest time hold, from either end of
    /// the model; false where they do not meet. A stage that can take nothing there may still take what another one
    /// holds.
    bool find_windows() {
        last_ends_.clear();
        std::size_t next = 0;
        for (std::size_t stage = 0; stage < stages_; ++stage) {
            auto const begin = next;
            auto const last = slots_ - (stages_ - 1 - stage);
            GrowingStage own;
            List<StageNeeds> needs(task_.memory.ranks.size());
            for (; next < last; ++next) {
                take(own, needs, stage, next);
                if (own.seconds > most_ || !has_capacity(stage, begin, next + 1, needs)) break;
            }
            last_ends_.push_back(next);
        }
        if (next != slots_) return false;
        first_begins_.resize(stages_);
        auto first = slots_;
        for (auto stage = stages_; stage-- > 0;) {
            auto const end = first;
            GrowingStage own;
            List<StageNeeds> needs(task_.memory.ranks.size());
            for (; first > stage; --first) {
                take(own, needs, stage, first - 1);
                if (own.seconds > most_ || !has_capacity(stage, first - 1, end, needs)) break;
            }
            first_begins_[stage] = first;
        }
        return first == 0;
    }

    /// What slots take at least on any of the stages from each one on: the sums from each slot on.
    void find_rests() {
        List<double> least;
        for (auto stage = stages_; stage-- > 0;) {
            auto const& seconds = task_.prices[stage]->seconds;
            bool is_less = least.empty();
            if (least.empty()) least = seconds;
            for (std::size_t kind = 0; kind < least.size(); ++kind) {
                if (seconds[kind] >= least[kind]) continue;
                least[kind] = seconds[kind];
                is_less = true;
            }
            if (is_less) {
                List<double> sums(slots_ + 1, 0.0);
                for (auto slot = slots_; slot-- > 0;) sums[slot] = sums[slot + 1] + least[task_.slots.kind_of[slot]];
                rests_.push_back(static_cast<List<double>&&>(sums));
            }
            rest_of_[stage] = rests_.size() - 1;
        }
    }
    List<double> const& rest(std::size_t stage) const { return rests_[rest_of_[stage]]; }
    static std::size_t larger(std::size_t a, std::size_t b) { return a > b ? a : b; }

    /// All stages `stage` that end before slot `end`.
    void grow(std::size_t stage, std::size_t end) {
        auto own = stage_before(stage, end);
        List<StageNeeds> needs(task_.memory.ranks.size());
        auto const message = message_seconds(stage, own);
        auto const& before = rest(0);
        for (auto begin = end; begin-- > first_begins_[stage];) {
            take(own, needs, stage, begin);
            auto const seconds = own.seconds + message;
            CutTimes const alone{.sum = seconds + before[0] - before[begin] + messages_[0] - messages_[stage],
                                 .slowest = seconds};
            if (seconds_at_least(alone, stage, end) > limit_) break;
            bool const is_reached = stage == 0 ? begin == 0 : !front(stage - 1, begin).empty();
            // What does not fit does not with more slots either.
            if (is_reached && !join(stage, begin, end, stage_times(stage, own), needs)) break;
        }
    }

    double message_seconds(std::size_t stage, GrowingStage const& own) const {
        if (stage + 1 == stages_) return 0.0;
        return stage_message_seconds(own.cost(), task_.sites.stages[stage], task_.setting);
    }

    CutTimes stage_times(std::size_t stage, GrowingStage const& own) const {
        auto const seconds = own.seconds + message_seconds(stage, own);
        CutTimes times{.sum = seconds, .slowest = seconds};
        if (is_training()) {
            auto const& site = task_.sites.stages[stage];
            auto const cost = own.cost();
            times.reduce = data_parallel_seconds(cost, site, task_.degrees, task_.setting);
            times.update = optimizer_seconds(cost, site, task_.degrees, task_.setting);
        }
        return times;
    }

    /// Puts a stage after every way to cut what lies before it; false where it does not fit.
    bool join(std::size_t stage, std::size_t begin, std::size_t end, CutTimes const& own,
              List<StageNeeds> const& needs) {
        int fits = -1;
        auto const try_way = [&](CutTimes const& before, std::size_t index) {
            Way const way{before.joined(own), begin, index};
            if (seconds_at_least(way.times, stage, end) > limit_) return;
            if (fits < 0) fits = has_capacity(stage, begin, end, needs) ? 1 : 0;
            if (fits == 1) keep(front(stage, end), way);
        };
        if (stage == 0) {
            try_way({}, 0);
            return fits != 0;
        }
        auto const& earlier = front(stage - 1, begin);
        for (std::size_t i = 0; i < earlier.size() && fits != 0; ++i) try_way(earlier[i].times, i);
        return fits != 0;
    }

    bool has_capacity(std::size_t stage, std::size_t begin, std::size_t end, List<StageNeeds> const& needs) const {
        auto const is_here = [&](std::int64_t slot) {
            return slot >= static_cast<std::int64_t>(begin) && slot < static_cast<std::int64_t>(end);
        };
        for (std::size_t i = 0; i < needs.size(); ++i) {
            auto held = needs[i];
            for (auto const& tie : task_.slots.ties) {
                if (is_here(tie.first) && is_here(tie.other)) held.held -= task_.memory.ranks[i].tie(tie.tie);
            }
            auto const terms = task_.memory.ranks[i].stage_memory(held, static_cast<std::int64_t>(stage),
                                                                  task_.degrees.dp, task_.degrees.zero);
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

    StageBounds best_way() {
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

    /// How often what all stages take is found anew for the longest time of one.
    static constexpr int max_narrowed = 8;
    StageTask const& task_;
    std::size_t stages_;
    std::size_t slots_;
    List<List<Way>> fronts_;
    /// Least time of slots s.. on any of the stages k..; stages with equal prices share a list, rest_of_[k] says which.
    List<List<double>> rests_;
    List<std::size_t> rest_of_;
    /// The least time of all messages from a stage on.
    List<double> messages_;
    /// The last slot that each stage may end before, and the first that it may begin with.
    List<std::size_t> last_ends_;
    List<std::size_t> first_begins_;
    /// What no stages can be better than.
    CutTimes least_;
    double limit_ = 0.0;
    /// The longest that a stage may take.
    double most_ = 0.0;
};

}  // namespace detail

/// The consecutive stages with the shortest step among those that fit, if any takes `limit` seconds at most.
[[nodiscard]] inline StageBounds find_stages(StageTask const& task, double limit) {
    return detail::StageSearch(task).find(limit);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
