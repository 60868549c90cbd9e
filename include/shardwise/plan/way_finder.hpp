// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/capacity_check.hpp>
#include <shardwise/plan/class_rates.hpp>
#include <shardwise/plan/legal_degrees.hpp>
#include <shardwise/plan/micro_batch_prices.hpp>
#include <shardwise/plan/min_reduction.hpp>
#include <shardwise/plan/site_finder.hpp>
#include <shardwise/plan/slot_prices.hpp>
#include <shardwise/plan/stage_partition.hpp>
#include <shardwise/plan/stage_shares.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A way to run given degrees, before its stages are cut.
struct PlanWay {
    std::int64_t micro_batches = 1;
    std::int32_t zero = 0;
    /// What a step takes at least.
    double seconds = 0.0;
};

/// Finds the ways to run degrees that may fit, with what they take at least, from what is known without looking
/// at links: the classes of the devices that stages may lie on.
///
/// The bounds are those of stages that are as even as these devices and their memory allow, over the best links that
/// any group of ranks could have.
class WayFinder {
public:
    WayFinder(MicroBatchPrices& micro_batches, SlotPricer& pricer, SiteFinder& sites, CapacityCheck& capacity,
              StepSetting const& setting, MicroBatchChoices const& counts, bool is_sequence_parallel)
        : micro_batches_(micro_batches),
          pricer_(pricer),
          sites_(sites),
          capacity_(capacity),
          shares_(sites, capacity),
          setting_(setting),
          counts_(counts),
          is_dealt_in_rows_(is_sequence_parallel) {}
    WayFinder(WayFinder const&) = delete;
    WayFinder& operator=(WayFinder const&) = delete;

    /// False where stages that hold nothing but the model do not fit with any of these stages of ZeRO; for all
    /// numbers of stages from 1 on.
    [[nodiscard]] List<bool> may_hold(PlanDegrees degrees, List<std::int32_t> const& zeros, std::int64_t most) {
        List<bool> may(static_cast<std::size_t>(most), false);
        for (std::size_t i = 0; i < zeros.size(); ++i) {
            degrees.zero = zeros[i];
            capacity_.weigh(degrees, held_[i]);
            for (degrees.pp = 1; degrees.pp <= most; ++degrees.pp) {
                auto& known = may[static_cast<std::size_t>(degrees.pp) - 1];
                known = known ||
                        capacity_.may_hold(held_[i], degrees,
                                           sites_.classes().max_capacity(degrees.ranks() / degrees.pp, degrees.pp));
            }
        }
        return may;
    }

    /// The same, with the smallest micro-batches.
    [[nodiscard]] List<bool> may_fit(PlanDegrees degrees, std::int64_t batch, List<std::int32_t> const& zeros,
                                     std::int64_t most) {
        auto may = may_hold(degrees, zeros, most);
        if (zeros.empty() || is_dealt_in_rows_) return may;
        find_least(zeros.size());
        for (degrees.pp = 1; degrees.pp <= most; ++degrees.pp) {
            auto& known = may[static_cast<std::size_t>(degrees.pp) - 1];
            if (!known) continue;
            degrees.micro_batches = counts_.most(batch, degrees.pp);
            auto const& smallest = micro_batches_.weighed(degrees, ceil_divide(batch, degrees.micro_batches), true);
            // Larger micro-batches take no less together, but for what is rounded up.
            auto const max_bytes = 1.01 * sites_.classes().max_memory();
            known = capacity_.may_fit_alike(least_, degrees, smallest.min_bytes, max_bytes);
        }
        return may;
    }

    /// The least that a step takes with a number of micro-batches that may fit; negative where
    /// none has or where it is more than `limit`. Asks what slots hold only where degrees other than the number of
    /// stages have changed.
    ///
    /// Stages after others keep fewer micro-batches: what fits in the last of more stages fits in fewer ones. Without
    /// its messages a pipeline stands for all shorter ones; with them the bound knows what stages on unlike devices
    /// share.
    [[nodiscard]] double least_that_fits(PlanDegrees degrees, std::int64_t batch, List<std::int32_t> const& zeros,
                                         bool has_messages, bool is_known, double limit) {
        if (zeros.empty()) return -1.0;
        if (!is_known) {
            for (std::size_t i = 0; i < zeros.size(); ++i) {
                degrees.zero = zeros[i];
                capacity_.weigh(degrees, held_[i]);
            }
            find_least(zeros.size());
            gather_ = micro_batches_.min_gather(degrees);
        }
        degrees.zero = zeros.front();
        bool const is_cut = setting_.pass == Pass::training || degrees.pp > 1;
        sort_pieces(degrees, batch, counts_.of(batch, is_cut ? 2 : 1), has_messages);
        auto const rate = micro_batches_.sequence_rate(degrees);
        double least = -1.0;
        for (auto const& [seconds, micro_batches] : sorted_) {
            if (seconds > limit || (least >= 0.0 && least <= seconds)) break;
            degrees.micro_batches = micro_batches;
            if (is_dealt_in_rows_) return seconds;
            auto const size = ceil_divide(batch, micro_batches);
            auto const& micro_batch = micro_batches_.weighed(degrees, size, true);
            if (!has_capacity(least_, degrees, micro_batch.min_bytes)) continue;
            if (!has_messages || !shares_.is_useful()) return seconds;
            auto const slowest =
                shares_.min_slowest(least_, degrees, micro_batch.min_bytes,
                                    micro_batches_.slot_seconds(degrees, micro_batch, size, capacity_.most_frequent()),
                                    micro_batches_.min_slowest(degrees, micro_batch, size, rate),
                                    (least < 0.0 ? limit : least) / static_cast<double>(micro_batches));
            if (slowest < 0.0) continue;
            auto const longer = micro_batches_.gathered_seconds(degrees, micro_batch, slowest, gather_, has_messages);
            if (least < 0.0 || longer < least) least = longer;
        }
        return least;
    }

    /// Calls `visit` with each way that may fit and of which `may_win(seconds)` is true. Where devices differ the
    /// bounds ask on which of them the stages of each layout lie, if `layouts` are given.
    template <class MayWin, class Visit>
    void find(PlanDegrees degrees, std::int64_t batch, List<std::int32_t> const& zeros, List<PlanLayout> const& layouts,
              MayWin const& may_win, Visit const& visit) {
        auto const counts = counts_.of(batch, degrees.pp);
        sort_stages(degrees, layouts);
        List<std::int32_t> open;
        auto const most = sites_.classes().max_capacity(degrees.ranks() / degrees.pp, degrees.pp);
        for (auto const zero : zeros) {
            degrees.zero = zero;
            capacity_.weigh(degrees, held_[open.size()]);
            if (capacity_.may_hold(held_[open.size()], degrees, most)) open.push_back(zero);
        }
        if (open.empty()) return;
        gather_ = micro_batches_.min_gather(degrees);
        find_least(open.size());
        degrees.zero = open.front();
        sort_pieces(degrees, batch, counts);
        for (auto const& [least, micro_batches] : sorted_) {
            if (!may_win(least)) break;
            degrees.micro_batches = micro_batches;
            auto const size = ceil_divide(batch, micro_batches);
            if (!has_capacity(least_, degrees, micro_batches_.weighed(degrees, size, true).min_bytes)) continue;
            auto& micro_batch = micro_batches_.weighed(degrees, size, false);
            for (std::size_t i = 0; i < open.size(); ++i) {
                degrees.zero = open[i];
                auto const seconds = least_way(held_[i], degrees, micro_batch, may_win);
                if (seconds >= 0.0) visit(PlanWay{micro_batches, open[i], seconds});
            }
        }
    }

private:
    /// A number of micro-batches, and what a step takes with it at least.
    struct SortedPieces {
        double seconds = 0.0;
        std::int64_t micro_batches = 1;
    };
    /// The numbers of micro-batches, the most promising first.
    void sort_pieces(PlanDegrees degrees, std::int64_t batch, List<std::int64_t> const& counts,
                     bool has_messages = true) {
        sorted_.clear();
        auto const rate = micro_batches_.sequence_rate(degrees);
        for (auto const micro_batches : counts) {
            degrees.micro_batches = micro_batches;
            auto const size = ceil_divide(batch, micro_batches);
            auto const seconds = micro_batches_.first_look(degrees, micro_batches_.at(degrees, size, true), size, rate,
                                                           gather_, has_messages);
            auto place = sorted_.size();
            while (place > 0 && seconds < sorted_[place - 1].seconds) --place;
            (void)sorted_.insert(sorted_.begin() + place, {seconds, micro_batches});
        }
    }
    /// The least of what slots hold under any of the first `count` stages of ZeRO.
    void find_least(std::size_t count) {
        least_ = held_[0];
        for (std::size_t i = 1; i < count; ++i) {
            for (std::size_t kind = 0; kind < least_.kinds.size(); ++kind) {
                if (held_[i].kinds[kind] < least_.kinds[kind]) least_.kinds[kind] = held_[i].kinds[kind];
                if (held_[i].gathered[kind] < least_.gathered[kind]) least_.gathered[kind] = held_[i].gathered[kind];
            }
        }
    }

    /// False where not even the largest devices fit.
    bool has_capacity(HeldBytes const& held, PlanDegrees const& degrees, SlotBytes const* bytes) const {
        return capacity_.may_fit_alike(held, degrees, bytes, sites_.classes().max_memory());
    }

    /// What a step takes at least; negative where it does not fit or may not win.
    template <class MayWin>
    double least_way(HeldBytes const& held, PlanDegrees const& degrees, MicroBatchPrice& micro_batch,
                     MayWin const& may_win) {
        auto const& prices = *micro_batch.prices;
        double update = 0.0;
        if (setting_.pass == Pass::training) {
            StageCost mean;
            mean.weights = (1.0 / static_cast<double>(degrees.pp)) * prices.weights;
            StageSite site;
            site.device = &sites_.classes().strongest();
            update = detail::optimizer_seconds(mean, site, degrees, setting_);
        }
        auto const stages = static_cast<double>(degrees.pp);
        auto const reduction = min_reduction(prices, gather_, degrees, setting_);
        auto const step = [&](double slowest, double more = 0.0) {
            auto const seconds = update + micro_batches_.step_seconds(degrees, micro_batch, slowest, more);
            if (gather_ <= 0.0) return seconds;
            return seconds + (1.0 - 1e-12) * reduction.added(more / stages, slowest - prices.total / stages, stages);
        };
        auto slowest = pricer_.min_slowest(prices, degrees.pp);
        if (!may_win(step(slowest))) return -1.0;
        if (!has_capacity(held, degrees, micro_batch.bytes)) return -1.0;
        if (!sites_.is_uniform()) {
            micro_batches_.price_classes(degrees, micro_batch);
            auto const shared = least_shared(degrees, micro_batch);
            if (slowest < shared) slowest = shared;
            if (!may_win(step(slowest))) return -1.0;
        }
        if (profiles_.empty()) return least_in(held, degrees, micro_batch, nullptr, slowest, step, may_win);
        double least = -1.0;
        for (auto const& profile : profiles_) {
            auto const seconds = least_in(held, degrees, micro_batch, profile.data(), slowest, step, may_win);
            if (seconds >= 0.0 && (least < 0.0 || seconds < least)) least = seconds;
        }
        return least;
    }

    /// The same where the stages lie on these classes of devices; on the best of them where they are not known.
    template <class Step, class MayWin>
    double least_in(HeldBytes const& held, PlanDegrees const& degrees, MicroBatchPrice const& micro_batch,
                    std::uint64_t const* profile, double slowest, Step const& step, MayWin const& may_win) {
        List<StageLimit> limits(profile == nullptr ? 1 : static_cast<std::size_t>(degrees.pp));
        for (std::size_t stage = 0; stage < limits.size(); ++stage) {
            if (profile == nullptr) {
                limits[stage] = {sites_.classes().max_memory(), micro_batch.prices->seconds.data()};
                continue;
            }
            auto const& prices = *micro_batch.classes[worst_class(micro_batch, profile[stage])];
            limits[stage] = {sites_.classes().memory_of(profile[stage]), prices.seconds.data()};
        }
        auto const fits = [&](double longest) {
            return capacity_.may_fit(held, degrees, micro_batch.bytes, [&](std::int64_t stage) {
                auto limit = limits[profile == nullptr ? 0 : static_cast<std::size_t>(stage)];
                if (longest < 0.0) limit.seconds = nullptr;
                limit.max_seconds = longest;
                return limit;
            });
        };
        // Most ways that may not win are known by one question.
        bool const needs_less = slowest < last_slowest_ && !may_win(step(last_slowest_));
        if (needs_less && degrees.pp > 1 && !fits(last_slowest_ * rounding)) return -1.0;
        if (profile != nullptr && !fits(-1.0)) return -1.0;
        auto const more = profile == nullptr ? 0.0 : least_more(held, degrees, micro_batch, limits);
        if (!may_win(step(slowest, more))) return -1.0;
        if (degrees.pp == 1) {
            if (profile != nullptr) {
                auto const own = micro_batch.classes[worst_class(micro_batch, profile[0])]->total;
                slowest = slowest < own ? own : slowest;
            }
        } else if (!fits(slowest * rounding)) {
            // Memory or unlike devices keep stages from being as even as they could be.
            auto longest = 2.0 * slowest;
            while (longest < 1e3 * micro_batch.prices->total && !fits(longest * rounding)) {
                slowest = longest;
                if (!may_win(step(slowest, more))) return -1.0;
                longest *= 2.0;
            }
            for (int i = 0; i < 5 && may_win(step(slowest, more)); ++i) {
                auto const middle = slowest + (longest - slowest) / 2.0;
                (fits(middle * rounding) ? longest : slowest) = middle;
            }
        }
        auto const seconds = step(slowest, more);
        if (!may_win(seconds)) return -1.0;
        last_slowest_ = slowest;
        return seconds;
    }

    /// What the most frequent slots take longer at least than on the best devices: the fastest stages hold only so
    /// many.
    double least_more(HeldBytes const& held, PlanDegrees const& degrees, MicroBatchPrice const& micro_batch,
                      List<StageLimit> const& limits) const {
        auto const kind = capacity_.most_frequent();
        auto const count = capacity_.slots_of(kind);
        auto left = count;
        double sum = 0.0;
        double passed = 0.0;
        while (left > 0.0) {
            double next = 0.0;
            for (auto const& limit : limits) {
                auto const own = limit.seconds[kind];
                if (own > passed && (next <= 0.0 || own < next)) next = own;
            }
            if (next <= 0.0) break;
            for (std::size_t stage = 0; stage < limits.size() && left > 0.0; ++stage) {
                auto const& limit = limits[stage];
                if (limit.seconds[kind] != next) continue;
                auto slots = capacity_.max_slots(held, degrees, micro_batch.bytes, static_cast<std::int64_t>(stage),
                                                 limit.bytes, kind);
                if (left < slots) slots = left;
                sum += slots * next;
                left -= slots;
            }
            passed = next;
        }
        auto const more = sum + left * passed - count * micro_batch.prices->seconds[kind];
        return more > 0.0 ? more * (1.0 - 1e-9) : 0.0;
    }

    std::size_t worst_class(MicroBatchPrice const& micro_batch, std::uint64_t classes) const {
        auto worst = static_cast<std::size_t>(std::countr_zero(classes));
        for (auto i = worst + 1; i < micro_batch.classes.size(); ++i) {
            if ((classes >> i & 1U) != 0 && micro_batch.classes[worst]->total < micro_batch.classes[i]->total)
                worst = i;
        }
        return worst;
    }

    /// What the slowest stage takes at least where each lies on a class of its own and has what that is fastest at.
    double least_shared(PlanDegrees const& degrees, MicroBatchPrice const& micro_batch) {
        auto const& whole = *micro_batch.prices;
        rates_.clear();
        for (std::size_t i = 0; i < micro_batch.classes.size(); ++i) {
            auto const& own = micro_batch.classes[i]->seconds;
            double fastest = 0.0;
            for (std::size_t kind = 0; kind < own.size(); ++kind) {
                auto const ratio = whole.seconds[kind] / own[kind];
                fastest = fastest < ratio ? ratio : fastest;
            }
            rates_.add(sites_.classes().size(i), fastest);
        }
        auto const done = rates_.together(degrees.ranks() / degrees.pp, degrees.pp);
        return done > 0.0 ? whole.total / done * (1.0 - 1e-12) : 0.0;
    }

    /// The classes of devices of every stage of every layout.
    void sort_stages(PlanDegrees const& degrees, List<PlanLayout> const& layouts) {
        profiles_.clear();
        if (sites_.is_uniform() || sites_.classes().count() > 64) return;
        for (auto const& layout : layouts) {
            auto profile = sites_.classes_of_stages(degrees, layout);
            bool is_known = false;
            for (auto const& other : profiles_) is_known = is_known || other == profile;
            if (!is_known) profiles_.push_back(static_cast<List<std::uint64_t>&&>(profile));
        }
    }

    static constexpr double rounding = 1.0 + 1e-9;
    MicroBatchPrices& micro_batches_;
    SlotPricer& pricer_;
    SiteFinder& sites_;
    CapacityCheck& capacity_;
    StageShares shares_;
    StepSetting const& setting_;
    MicroBatchChoices const& counts_;
    /// Each rank has a whole number of a micro-batch's rows: small micro-batches may take more than their share of a large one.
    bool is_dealt_in_rows_;
    List<List<std::uint64_t>> profiles_;
    /// Of the stages of ZeRO that are looked at, and the least of them.
    std::array<HeldBytes, 4> held_;
    HeldBytes least_;
    List<SortedPieces> sorted_;
    /// The slowest stage of the last way that was found: a hint, any value will do.
    double last_slowest_ = 0.0;
    /// Of all weights of the degrees that are looked at, in seconds.
    double gather_ = 0.0;
    ClassRates rates_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
