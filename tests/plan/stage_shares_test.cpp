// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/micro_batch_prices.hpp>
#include <shardwise/plan/stage_partition.hpp>
#include <shardwise/plan/stage_shares.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

using namespace shardwise;

namespace {

Topology mixed_cluster(std::string_view spec) {
    auto topology = parse_topology(spec);
    REQUIRE(topology);
    return *topology;
}

/// The cuts of a job over a cluster, and how often their bound was more than an even share.
struct SharedCuts {
    int cuts = 0;
    int without_fit = 0;
    int uneven = 0;
};

/// Holds the bound of all degrees, layouts and micro-batches to the best stages.
SharedCuts check_shares(ModelConfig const& config, EstimateRequest const& job, Topology const& topology) {
    auto const model = *describe(config);
    CostModel cost(model, job);
    auto const parts = find_parts(model, depends_on_layer(job));
    auto const slots = find_slots(model, parts, depends_on_layer(job));
    SlotPricer pricer(cost, slots);
    SiteFinder sites(topology);
    CutMemories memories(model, job, parts, slots);
    CapacityCheck capacity(model, job, slots, memories);
    StageShares shares(sites, capacity);
    CHECK(shares.is_useful());
    auto const pass = step_pass(model, job);
    auto const setting = step_setting(cost, pass);
    MicroBatchPrices pieces_at_best(pricer, sites, capacity, setting, {.tp = 2});
    auto const kind = capacity.most_frequent();
    SharedCuts checked;
    for (std::int64_t tp = 1; tp <= 2; ++tp) {
        for (std::int64_t dp = 1; dp <= 2; ++dp) {
            for (std::int64_t pp = 2; tp * dp * pp <= sites.count(); ++pp) {
                for (std::int64_t const micro_batches : {1, 2, 8}) {
                    PlanDegrees const degrees{.tp = tp, .pp = pp, .dp = dp, .micro_batches = micro_batches};
                    auto const size = ceil_divide(rank_batch(job.batch, degrees), micro_batches);
                    HeldBytes held;
                    capacity.weigh(degrees, held);
                    auto const* const bytes = capacity.slot_bytes(degrees, size);
                    List<double> seconds;
                    for (std::size_t i = 0; i < sites.classes().count(); ++i)
                        seconds.push_back(pricer.at(pass, size, sites.best_site(tp, 1, i)).seconds[kind]);
                    auto const even = pricer.at(pass, size, sites.best_site(tp, 1)).total / static_cast<double>(pp);
                    auto const bound = shares.min_slowest(held, degrees, bytes, seconds, even, 1e15);
                    checked.without_fit += bound < 0.0 ? 1 : 0;
                    checked.uneven += bound > 1.1 * even ? 1 : 0;
                    auto const& micro_batch = pieces_at_best.at(degrees, size, true);
                    auto const rate = pieces_at_best.sequence_rate(degrees);
                    auto const mean = pieces_at_best.min_slowest(degrees, micro_batch, size, rate);
                    // What takes at most so long is told from what takes longer.
                    if (bound > 1.1 * even) {
                        CHECK(shares.min_slowest(held, degrees, bytes, seconds, even, 0.9 * bound) < 0.0);
                        CHECK(shares.min_slowest(held, degrees, bytes, seconds, even, 1.2 * bound) == bound);
                    }
                    for (auto const& layout : sites.layouts(degrees)) {
                        auto const found = sites.sites(degrees, layout);
                        List<SlotPrices const*> prices;
                        for (auto const& site : found.stages) prices.push_back(&pricer.at(pass, size, site));
                        auto const memory_of_cut = memories.of(degrees);
                        StageTask const task{slots, degrees, found, prices, memory_of_cut, setting};
                        auto const cut = find_stages(task, 1e300);
                        if (cut.begins.empty()) continue;
                        double slowest = 0.0;
                        for (std::size_t stage = 0; stage < found.stages.size(); ++stage) {
                            double own = 0.0;
                            for (auto slot = cut.begins[stage]; slot < cut.begins[stage + 1]; ++slot)
                                own += prices[stage]->seconds[slots.kind_of[static_cast<std::size_t>(slot)]];
                            slowest = std::max(slowest, own);
                        }
                        CAPTURE(tp);
                        CAPTURE(dp);
                        CAPTURE(pp);
                        CAPTURE(micro_batches);
                        CHECK(mean <= slowest * (1.0 + 1e-9));
                        CHECK(bound >= 0.0);
                        CHECK(bound <= slowest * (1.0 + 1e-9));
                        ++checked.cuts;
                    }
                }
            }
        }
    }
    return checked;
}

}  // namespace

TEST_CASE("shares: a stage has a device of those classes that its place in an order says, in every layout") {
    int checked = 0;
    for (std::string_view const spec :
         {"2x(3xH100-80GB)+7xRTX4090", "5xRTX4090+2x(4xA100-80GB)", "1xT4+3x(3xA100-40GB)+2xT4+1xH100-80GB"}) {
        auto const topology = mixed_cluster(spec);
        SiteFinder sites(topology);
        REQUIRE(!sites.reaches().empty());
        for (std::int64_t tp = 1; tp <= 3; ++tp) {
            for (std::int64_t ep = 1; ep <= 2; ++ep) {
                for (std::int64_t dp = 1; dp <= 3; ++dp) {
                    for (std::int64_t pp = 1; tp * ep * dp * pp <= sites.count(); ++pp) {
                        PlanDegrees const degrees{.tp = tp, .pp = pp, .dp = dp, .ep = ep};
                        for (auto const& layout : sites.layouts(degrees)) {
                            auto const& reach =
                                sites.reaches()[layout.is_strongest_first ? sites.reaches().size() - 1 : 0];
                            auto const classes = sites.classes_of_stages(degrees, layout);
                            for (std::int64_t stage = 0; stage < pp; ++stage) {
                                auto const found = reach.of(stage, tp * ep * dp, reach.left_out(tp, ep));
                                CAPTURE(spec);
                                CAPTURE(stage);
                                CHECK((found.first & classes[static_cast<std::size_t>(stage)]) != 0);
                                CHECK((found.last & classes[static_cast<std::size_t>(stage)]) != 0);
                                ++checked;
                            }
                        }
                    }
                }
            }
        }
    }
    CHECK(checked > 1000);
}

TEST_CASE("shares: no stages are faster, or have capacity, that the bound of their classes denies") {
    EstimateRequest const serving{.batch = 8, .context = 512};
    EstimateRequest const training{.batch = 8, .context = 2048, .training = TrainingPlan{}};
    SharedCuts all;
    for (std::string_view const spec : {"2x(2xH100-80GB)+5xRTX4090", "4xT4+2x(3xA100-80GB)", "3xRTX4090+3xH100-80GB"}) {
        for (auto const memory : {4_GiB, 6_GiB, 12_GiB, 24_GiB}) {
            auto topology = mixed_cluster(spec);
            // The first kind of devices keeps its memory: the others' is for some layers only.
            for (auto& device : topology.devices) {
                if (device.name != topology.devices[0].name) device.memory = memory;
            }
            for (auto const& job : {serving, training}) {
                auto const checked = check_shares(presets::llama_2_7b, job, topology);
                all.cuts += checked.cuts;
                all.without_fit += checked.without_fit;
                all.uneven += checked.uneven;
            }
        }
    }
    CHECK(all.cuts > 500);
    CHECK(all.without_fit > 100);
    CHECK(all.uneven > 100);
}

TEST_CASE("shares: devices that are each the fastest at something may each have what they are fastest at") {
    // Few layers, which read their cache, and a head of many products.
    auto config = *preset_config("gemma-3-1b");
    config.layers = 3;
    config.local_layers = {};
    int cuts = 0;
    for (double const crossed : {2.0, 8.0, 64.0}) {
        auto topology = mixed_cluster("2xA100-80GB+2xH100-80GB");
        for (auto& device : topology.devices) {
            auto const faster = device.name == topology.devices[0].name ? crossed : 1.0 / crossed;
            device.bandwidth *= faster;
            device.peak.bf16 /= faster;
        }
        for (std::int64_t const batch : {64, 4096}) {
            cuts += check_shares(config, {.batch = batch, .context = 4096}, topology).cuts;
            cuts += check_shares(config, {.batch = 64, .context = 256, .training = TrainingPlan{}}, topology).cuts;
        }
    }
    CHECK(cuts > 50);
}
