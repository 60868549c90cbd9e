// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/plan/layer_slots.hpp>
#include <shardwise/plan/stage_cost.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One micro-batch through each kind of slot.
struct SlotPrices {
    List<StageCost> kinds;
    /// Of one slot of each kind.
    List<double> seconds;
    /// Over all slots, and of the slowest one; of all slots, the backward pass.
    double total = 0.0;
    double slowest = 0.0;
    double backward = 0.0;
    /// The least that a slot hands to the next one.
    double message = 0.0;
    /// Of all slots.
    BodyWeights weights{};
};

/// Prices slots, each setting once.
class SlotPricer {
public:
    SlotPricer(CostModel& cost, LayerSlots const& slots) : cost_(cost), slots_(slots), buckets_(bucket_count) {
        for (std::size_t kind = 0; kind < slots.kinds.size(); ++kind) {
            std::int64_t slot = 0;
            while (slots.kind_of[static_cast<std::size_t>(slot)] != kind) ++slot;
            examples_.push_back(slot);
            counts_.push_back(0.0);
        }
        for (auto const kind : slots.kind_of) counts_[kind] += 1.0;
    }

    /// The prices at a site; valid until the pricer goes.
    [[nodiscard]] SlotPrices const& at(Pass pass, std::int64_t batch, StageSite const& site) {
        BlockSetting const setting{.pass = pass, .batch = batch, .tp = site.tp, .ep = site.ep};
        auto& bucket = buckets_[hash(setting)];
        auto const rates = cost_.rates_of(*site.device);
        for (auto const index : bucket) {
            auto const& known = priced_[index / chunk][index % chunk];
            if (known.setting == setting && known.rates == rates) return known.prices;
        }
        if (priced_.empty() || priced_.back().size() == chunk) {
            priced_.push_back({});
            priced_.back().reserve(chunk);
        }
        bucket.push_back((priced_.size() - 1) * chunk + priced_.back().size());
        priced_.back().push_back({setting, rates, price(setting, *site.device)});
        return priced_.back().back().prices;
    }

    /// What each sequence takes at least in one slot of each kind, however many there are.
    [[nodiscard]] List<double> least_each(Pass pass, StageSite const& site) {
        BlockSetting const setting{.pass = pass, .batch = 1, .tp = site.tp, .ep = site.ep};
        auto const bodies = cost_.price_each(setting, *site.device);
        // One sequence's rows are split over the ranks in whole ones.
        bool const is_dealt = cost_.request().parallel.sequence_parallel;
        auto const ranks = is_dealt ? static_cast<double>(site.tp.ranks) : 1.0;
        List<double> kinds;
        for (auto const example : examples_)
            kinds.push_back(stage_cost(cost_, {bodies.data(), bodies.size()}, example, 1).terms.total() / ranks);
        return kinds;
    }
    /// Of all slots, from what one of each kind takes.
    [[nodiscard]] double total(List<double> const& kinds) const {
        double sum = 0.0;
        for (std::size_t kind = 0; kind < kinds.size(); ++kind) sum += counts_[kind] * kinds[kind];
        return sum;
    }

    /// What the slowest of `stages` stages takes at least: the mean, and of each kind of slots the most that some stage
    /// must have.
    [[nodiscard]] double min_slowest(SlotPrices const& prices, std::int64_t stages) {
        auto const index = static_cast<std::size_t>(stages);
        if (shares_.size() <= index) shares_.resize(index + 1);
        auto& shares = shares_[index];
        if (shares.empty()) {
            for (auto const count : counts_)
                shares.push_back(static_cast<double>(ceil_divide(static_cast<std::int64_t>(count), stages)));
        }
        auto least = prices.total / static_cast<double>(stages);
        for (std::size_t kind = 0; kind < counts_.size(); ++kind) {
            auto const seconds = shares[kind] * prices.seconds[kind];
            if (least < seconds) least = seconds;
        }
        return least;
    }

private:
    struct Priced {
        BlockSetting setting{};
        DeviceRates rates{};
        SlotPrices prices;
    };
    static constexpr std::size_t chunk = 64;
    static constexpr std::size_t bucket_count = 4096;

    static std::size_t hash(BlockSetting const& setting) {
        auto value = static_cast<std::uint64_t>(setting.batch) * 0x9E3779B97F4A7C15ULL;
        value = (value ^ static_cast<std::uint64_t>(setting.tp.ranks)) * 0xBF58476D1CE4E5B9ULL;
        value = (value ^ static_cast<std::uint64_t>(setting.ep.ranks)) * 0x94D049BB133111EBULL;
        value += static_cast<std::uint64_t>(setting.pass);
        return static_cast<std::size_t>((value ^ (value >> 31U)) % bucket_count);
    }

    SlotPrices price(BlockSetting const& setting, Device const& device) {
        auto const bodies = cost_.price_bodies(setting, device);
        SlotPrices prices;
        for (std::size_t kind = 0; kind < examples_.size(); ++kind) {
            auto const cost = stage_cost(cost_, {bodies.data(), bodies.size()}, examples_[kind], 1);
            auto const seconds = cost.terms.total();
            prices.kinds.push_back(cost);
            prices.seconds.push_back(seconds);
            prices.total += counts_[kind] * seconds;
            prices.backward += counts_[kind] * cost.backward_seconds;
            prices.weights += counts_[kind] * cost.weights;
            if (prices.slowest < seconds) prices.slowest = seconds;
            bool const is_sent = counts_[kind] > 1.0 || examples_[kind] + 1 < slots_.size();
            if (is_sent && (prices.message <= 0.0 || cost.output_bytes < prices.message))
                prices.message = cost.output_bytes;
        }
        return prices;
    }

    CostModel& cost_;
    LayerSlots const& slots_;
    List<std::int64_t> examples_;
    List<double> counts_;
    /// Of each kind the most that one of so many stages must have.
    List<List<double>> shares_;
    List<List<std::size_t>> buckets_;
    List<List<Priced>> priced_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
