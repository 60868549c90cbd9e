// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/capacity_check.hpp>
#include <shardwise/plan/class_rates.hpp>
#include <shardwise/plan/legal_degrees.hpp>
#include <shardwise/plan/min_reduction.hpp>
#include <shardwise/plan/site_finder.hpp>
#include <shardwise/plan/slot_prices.hpp>
#include <shardwise/plan/stage_partition.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One micro-batch through a tensor- and expert-parallel group: what it takes at least, wherever the group lies.
struct MicroBatchPrice {
    std::int64_t size = 0;
    SlotPrices const* prices = nullptr;
    /// To the next stage.
    double message = 0.0;
    SlotBytes const* bytes = nullptr;
    /// No more than these, sooner found.
    SlotBytes const* min_bytes = nullptr;
    /// On each class of devices.
    List<SlotPrices const*> classes;
};

/// Prices micro-batches on the best sites that groups of ranks could have, and gives the bounds that follow.
class MicroBatchPrices {
public:
    MicroBatchPrices(SlotPricer& pricer, SiteFinder& sites, CapacityCheck& capacity, StepSetting const& setting,
                     DegreeLimits const& most)
        : pricer_(pricer),
          sites_(sites),
          capacity_(capacity),
          setting_(setting),
          columns_(static_cast<std::size_t>(most.ep > 2 ? most.ep : 2) + 1),
          index_((static_cast<std::size_t>(most.tp) + 1) * columns_, 0) {}
    MicroBatchPrices(MicroBatchPrices const&) = delete;
    MicroBatchPrices& operator=(MicroBatchPrices const&) = delete;

    /// A micro-batch takes no less than one that is no larger: one of a power of two for the first look, else one of a size
    /// with four binary digits. Valid until the next one is asked for.
    [[nodiscard]] MicroBatchPrice& at(PlanDegrees const& degrees, std::int64_t size, bool is_first_look) {
        auto& group = group_of(degrees);
        std::size_t index = 0;
        for (; size >= 16; size /= 2) index += 8;
        while (is_first_look && (size & (size - 1)) != 0) size &= size - 1;
        index += static_cast<std::size_t>(size);
        if (group.micro_batches.size() <= index) group.micro_batches.resize(index + 1);
        auto& micro_batch = group.micro_batches[index];
        if (micro_batch.prices == nullptr) {
            micro_batch.size = size << (index - static_cast<std::size_t>(size)) / 8;
            micro_batch.prices = &pricer_.at(setting_.pass, micro_batch.size, group.site);
            StageCost const stage{.output_bytes = micro_batch.prices->message};
            micro_batch.message = detail::stage_message_seconds(stage, group.site, setting_);
        }
        return micro_batch;
    }
    /// The same, with its bytes; for the first look with no more than these.
    [[nodiscard]] MicroBatchPrice& weighed(PlanDegrees const& degrees, std::int64_t size, bool is_first_look) {
        auto& micro_batch = at(degrees, size, is_first_look);
        auto& bytes = is_first_look ? micro_batch.min_bytes : micro_batch.bytes;
        if (bytes == nullptr) bytes = capacity_.slot_bytes(degrees, micro_batch.size, !is_first_look);
        return micro_batch;
    }
    /// The same, with its prices on every class of devices.
    void price_classes(PlanDegrees const& degrees, MicroBatchPrice& micro_batch) {
        if (!micro_batch.classes.empty()) return;
        for (std::size_t i = 0; i < sites_.classes().count(); ++i) {
            micro_batch.classes.push_back(
                &pricer_.at(setting_.pass, micro_batch.size, sites_.best_site(degrees.tp, degrees.ep, i)));
        }
    }

    /// What a slot of a kind takes at least on each class of devices with micro-batches of `size` sequences, for which `micro_batch`
    /// stands, which is no larger. Valid until the next question.
    [[nodiscard]] List<double> const& slot_seconds(PlanDegrees const& degrees, MicroBatchPrice const& micro_batch,
                                                   std::int64_t size, std::size_t kind) {
        auto& group = group_of(degrees);
        if (group.each.empty()) find_rates(degrees, group);
        slot_seconds_.clear();
        for (auto const& each : group.each) {
            auto const own = static_cast<double>(size) * each[kind] * (1.0 - 1e-9);
            auto const best = micro_batch.prices->seconds[kind];
            slot_seconds_.push_back(own < best ? best : own);
        }
        return slot_seconds_;
    }

    /// What one gather of all weights takes at least over the data-parallel ranks; nothing in inference.
    [[nodiscard]] double min_gather(PlanDegrees const& degrees) {
        if (setting_.pass != Pass::training || degrees.dp * degrees.ep == 1) return 0.0;
        auto const& micro_batch = at(degrees, 1, true);
        auto site = group_of(degrees).site;
        site.dp = sites_.best_replicas(degrees.dp, degrees.tp * degrees.ep);
        return min_gather_seconds(micro_batch.prices->weights, site, setting_);
    }

    /// The step where all stages were the fastest that can be, and the slowest of them took so long.
    [[nodiscard]] double step_seconds(PlanDegrees const& degrees, MicroBatchPrice const& micro_batch, double slowest,
                                      double more = 0.0) const {
        detail::CutTimes const times{
            .sum = micro_batch.prices->total + more + static_cast<double>(degrees.pp - 1) * micro_batch.message,
            .slowest = slowest};
        return times.seconds(static_cast<double>(degrees.micro_batches), setting_);
    }
    /// The least that a step takes with the degrees' number of micro-batches and at least their stage of ZeRO, wherever its
    /// stages lie.
    ///
    /// For micro-batches of `size` sequences; `micro_batch` stands for them and is no larger. `rate` is sequence_rate.
    [[nodiscard]] double first_look(PlanDegrees const& degrees, MicroBatchPrice const& micro_batch, std::int64_t size,
                                    double rate, double gather, bool has_messages = true) {
        return gathered_seconds(degrees, micro_batch, min_slowest(degrees, micro_batch, size, rate), gather,
                                has_messages);
    }
    /// What the slowest stage takes at least, as first_look.
    [[nodiscard]] double min_slowest(PlanDegrees const& degrees, MicroBatchPrice const& micro_batch, std::int64_t size,
                                     double rate) {
        auto const slowest = pricer_.min_slowest(*micro_batch.prices, degrees.pp);
        auto const even = static_cast<double>(size) / rate;
        return slowest < even ? even : slowest;
    }
    /// No fewer sequences than the stages of a replica pass in a second.
    [[nodiscard]] double sequence_rate(PlanDegrees const& degrees) {
        return sequence_rate(degrees, degrees.ranks() / degrees.pp, degrees.pp);
    }
    /// A step whose slowest stage takes so long, with what its gathers take at least.
    [[nodiscard]] double gathered_seconds(PlanDegrees const& degrees, MicroBatchPrice const& micro_batch,
                                          double slowest, double gather, bool has_messages) const {
        auto const shown = (1.0 - setting_.efficiency.overlap) * gather / static_cast<double>(degrees.pp);
        auto const messages = has_messages ? 0.0 : static_cast<double>(degrees.pp - 1) * micro_batch.message;
        return step_seconds(degrees, micro_batch, slowest, -messages) + gathers_of_step(degrees) * shown;
    }

    /// The least that a step takes that many devices share: each sequence takes what grows with their number.
    ///
    /// `stages` are those of the longest pipeline, each of so many replicas; or, of 1, all stages of all replicas.
    [[nodiscard]] double shared_seconds(PlanDegrees const& degrees, std::int64_t batch, std::int64_t replicas,
                                        std::int64_t stages) {
        auto const rate = sequence_rate(degrees, degrees.tp * degrees.ep * replicas, stages);
        return static_cast<double>(batch) / (static_cast<double>(degrees.ep * replicas) * rate);
    }
    /// The least that a sequence takes through all stages.
    [[nodiscard]] double pass_seconds(PlanDegrees const& degrees) {
        return at(degrees, 1, true).prices->total * (1.0 - 1e-9);
    }

private:
    /// Where nothing is known of what a sequence takes.
    static constexpr double max_rate = 1e300;
    struct Group {
        StageSite site{};
        /// By their sizes, eight for each power of two.
        List<MicroBatchPrice> micro_batches;
        /// What each sequence takes at least, by class and kind of slots; empty where it is not known.
        List<List<double>> each;
        /// How many sequences' slots a stage passes at most: all, and those of the most frequent kind alone.
        ClassRates by_all;
        ClassRates by_most;
    };

    /// No fewer sequences of a group than `stages` stages of so many ranks pass in a second.
    [[nodiscard]] double sequence_rate(PlanDegrees const& degrees, std::int64_t ranks, std::int64_t stages) {
        auto& group = group_of(degrees);
        if (group.each.empty()) find_rates(degrees, group);
        auto const all = group.by_all.together(ranks, stages);
        auto const most = group.by_most.together(ranks, stages);
        return (all < most ? all : most) * (1.0 + 1e-9);
    }
    /// Slots of each kind weigh what they take on the devices that are fastest at them. In a second no stage passes more
    /// of that than on its device's best kind of slots, whichever it holds.
    void find_rates(PlanDegrees const& degrees, Group& group) {
        auto const& classes = sites_.classes();
        List<double> weights;
        for (std::size_t i = 0; i < classes.count(); ++i) {
            group.each.push_back(pricer_.least_each(setting_.pass, sites_.best_site(degrees.tp, degrees.ep, i)));
            if (i == 0) weights = group.each[0];
            for (std::size_t kind = 0; kind < weights.size(); ++kind) {
                if (group.each[i][kind] < weights[kind]) weights[kind] = group.each[i][kind];
            }
        }
        auto const whole = pricer_.total(weights);
        auto const frequent = capacity_.most_frequent();
        auto const most = capacity_.slots_of(frequent) * weights[frequent];
        for (std::size_t i = 0; i < classes.count(); ++i) {
            double fastest = 0.0;
            for (std::size_t kind = 0; kind < weights.size(); ++kind) {
                auto const share = share_of(weights[kind], group.each[i][kind]);
                if (fastest < share) fastest = share;
            }
            group.by_all.add(classes.size(i), whole > 0.0 ? fastest / whole : max_rate);
            auto const share = share_of(weights[frequent], group.each[i][frequent]);
            group.by_most.add(classes.size(i), most > 0.0 ? share / most : max_rate);
        }
    }
    static double share_of(double least, double own) { return own > 0.0 ? least / own : 0.0; }

    Group& group_of(PlanDegrees const& degrees) {
        auto& index = index_[static_cast<std::size_t>(degrees.tp) * columns_ + static_cast<std::size_t>(degrees.ep)];
        if (index == 0) {
            groups_.push_back({sites_.best_site(degrees.tp, degrees.ep), {}, {}, {}, {}});
            index = static_cast<std::int32_t>(groups_.size());
        }
        return groups_[static_cast<std::size_t>(index) - 1];
    }

    SlotPricer& pricer_;
    SiteFinder& sites_;
    CapacityCheck& capacity_;
    StepSetting const& setting_;
    std::size_t columns_;
    /// Of a group in `groups_`, from 1 on; by tp and ep.
    List<std::int32_t> index_;
    List<Group> groups_;
    List<double> slot_seconds_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
