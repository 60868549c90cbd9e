// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/plan_parallel.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string_view>
#include <vector>

using namespace shardwise;

namespace {

Topology cluster(std::string_view spec) {
    auto topology = parse_topology(spec);
    REQUIRE(topology);
    return *topology;
}

/// A number of [low, high], the same ones every time.
std::int64_t draw(std::mt19937& random, std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

}  // namespace

TEST_CASE("search: a heap gives candidates in order, whatever is put in between") {
    std::mt19937 random(3);
    CandidateHeap heap;
    for (int i = 0; i < 40; ++i)
        heap.push({.seconds = static_cast<double>(draw(random, 0, 9)), .tp = static_cast<std::int32_t>(i)});
    heap.build();
    std::vector<PlanCandidate> popped;
    while (!heap.empty()) {
        popped.push_back(heap.pop());
        if (popped.size() % 3 == 0 && popped.size() < 60) {
            auto late = popped.back();
            late.seconds += 1.0;
            heap.insert(late);
        }
    }
    CHECK(popped.size() == 59);
    for (std::size_t i = 1; i < popped.size(); ++i) CHECK_FALSE(popped[i].is_before(popped[i - 1]));
}

TEST_CASE("search: degrees of experts are those that leave the fullest rank fewer of them") {
    for (std::int64_t const experts : {0, 1, 7, 8, 60, 256}) {
        std::set<std::int64_t> shares;
        for (auto const ep : expert_degrees(experts, 64)) CHECK(shares.insert(ceil_divide(experts, ep)).second);
        for (std::int64_t ep = 1; ep <= std::min<std::int64_t>(64, experts); ++ep)
            CHECK(shares.count(ceil_divide(experts, ep)) == 1);
    }
    CHECK(micro_batch_counts(13, 2, false) == List<std::int64_t>{1, 2, 4, 7, 13});
    CHECK(micro_batch_counts(13, 1, false) == List<std::int64_t>{1});
    CHECK(micro_batch_counts(1, 4, true) == List<std::int64_t>{1});
}

TEST_CASE("search: stages of ZeRO are those of one rank and of several") {
    PlanRequest request{.estimate = {.training = TrainingPlan{}}};
    ZeroChoices const free(request, Dtype::bf16);
    CHECK(free.of(1) == List<std::int32_t>{0});
    CHECK(free.of(2) == List<std::int32_t>{0, 1, 2, 3});
    request.pins.zero = 2;
    CHECK(ZeroChoices(request, Dtype::bf16).of(7) == List<std::int32_t>{2});
    CHECK(ZeroChoices({}, Dtype::bf16).of(7) == List<std::int32_t>{0});
}

TEST_CASE("search: runs of values are what stands at each place") {
    std::mt19937 random(5);
    ValueRuns<int> runs;
    std::vector<int> plain;
    for (int i = 0; i < 60; ++i) {
        plain.push_back(static_cast<int>(draw(random, 0, 2)) / 2);
        runs.push_back(plain.back());
    }
    runs.finish();
    for (std::int64_t begin = 0; begin < 60; begin += 7) {
        std::vector<int> expected;
        for (auto i = begin; i < 60; ++i) {
            auto const value = plain[static_cast<std::size_t>(i)];
            if (expected.empty() || expected.back() != value) expected.push_back(value);
        }
        std::vector<int> found;
        runs.for_each(begin, 60, [&](int value) { found.push_back(value); });
        CHECK(found == expected);
    }
    CHECK(runs.is_one_until(1));
}

TEST_CASE("search: the worst of groups that begin side by side is that of all of them") {
    for (std::string_view const spec : {"3x(4xA100-80GB)", "2x(3xH100-80GB)+5xRTX4090", "1x(2xT4)+2x(5xA100-40GB)"}) {
        auto const topology = cluster(spec);
        DeviceWiring const wiring(topology);
        List<std::int32_t> order;
        for (std::int32_t i = 0; i < wiring.count(); ++i) order.push_back(i);
        DeviceOrder devices(wiring, order);
        for (std::int64_t const stride : {1, 2, 3}) {
            for (std::int64_t const count : {1, 2, 4}) {
                auto const& worst = devices.groups(stride, count, stride);
                std::int64_t block = 0;
                for (auto first = block; first + stride * count <= wiring.count(); first += stride * count, ++block) {
                    RankGroup expected{count, count, {}, {}};
                    for (std::int64_t k = 0; k < stride; ++k) {
                        std::set<std::size_t> nodes;
                        RankGroup group{count, count, {}, {}};
                        for (std::int64_t i = 0; i < count; ++i) {
                            auto const one = static_cast<std::int32_t>(first + k + i * stride);
                            nodes.insert(wiring.node_of(one));
                            for (auto j = i + 1; j < count; ++j) {
                                auto const other = static_cast<std::int32_t>(first + k + j * stride);
                                auto& link = wiring.node_of(one) == wiring.node_of(other) ? group.link : group.network;
                                link = detail::slower_link(link, wiring.link(one, other));
                            }
                        }
                        group.per_node = ceil_divide(count, static_cast<std::int64_t>(nodes.size()));
                        expected.per_node = std::min(expected.per_node, group.per_node);
                        expected.link = detail::slower_link(expected.link, group.link);
                        expected.network = detail::slower_link(expected.network, group.network);
                    }
                    worst.for_each(block, block + 1, [&](RankGroup const& found) {
                        CAPTURE(spec);
                        CAPTURE(stride);
                        CAPTURE(first);
                        CHECK(found == expected);
                    });
                }
            }
        }
    }
}

TEST_CASE("search: what groups could be at best no layout's groups are better than") {
    // With links, and where a third of the devices, or all in a cluster of one kind, share memory.
    for (int i = 0; i < 6; ++i) {
        constexpr std::string_view specs[] = {"4x(4xA100-80GB)", "3x(5xA100-80GB)", "2x(3xH100-80GB)+7xRTX4090"};
        bool const shares_memory = i >= 3;
        auto const spec = specs[i % 3];
        auto topology = cluster(spec);
        for (std::size_t k = 0; shares_memory && k < topology.devices.size(); ++k) {
            auto& link = topology.devices[k].link;
            if (i < 5 || k % 3 == 2) link = {LinkType::memory_bus, 1.2 * link.bandwidth, 1e-9};
            link.latency = 1e-9;
        }
        SiteFinder sites(topology);
        for (std::int64_t tp = 1; tp <= 5; ++tp) {
            for (std::int64_t ep = 1; ep <= 3; ++ep) {
                PlanDegrees const degrees{.tp = tp, .ep = ep};
                auto const best = sites.best_site(tp, ep);
                for (auto const& layout : sites.layouts(degrees)) {
                    auto const found = sites.sites(degrees, layout).stages[0];
                    CAPTURE(spec);
                    CAPTURE(shares_memory);
                    CAPTURE(tp);
                    CAPTURE(ep);
                    for (double const bytes : {1.0, 6e4, 1e5, 1e9}) {
                        CHECK(all_reduce_seconds(bytes, best.tp) <= all_reduce_seconds(bytes, found.tp) * (1 + 1e-12));
                        CHECK(dispatch_seconds(bytes, 8, best.ep) <=
                              dispatch_seconds(bytes, 8, found.ep) * (1 + 1e-12));
                    }
                }
            }
        }
    }
}

TEST_CASE("search: the best of devices is no slower than any of them, in types that only some of them name") {
    auto const topology = cluster("2xT4+2xA100-80GB+2xRTX4090");
    DeviceClasses const classes(topology);
    for (auto const dtype : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
        auto const best = device_rates(classes.strongest(), dtype);
        for (std::size_t i = 0; i < classes.count(); ++i) {
            auto const own = device_rates(classes.device(i), dtype);
            CHECK(own.products <= best.products);
            CHECK(own.attention <= best.attention);
            CHECK(own.memory <= best.memory);
        }
    }
}

TEST_CASE("search: stages on unlike devices do together what the fastest that are left do") {
    ClassRates rates;
    rates.add(4, 1.0);
    rates.add(5, 2.0);
    rates.add(3, 0.5);
    // Two stages of two lie on the fastest, one on the fifth of them and a slower one, and so on.
    CHECK(rates.together(2, 1) == 2.0);
    CHECK(rates.together(2, 3) == 2.0 + 2.0 + 1.0);
    CHECK(rates.together(2, 6) == 2.0 + 2.0 + 1.0 + 1.0 + 0.5 + 0.5);
    CHECK(rates.together(12, 1) == 0.5);
    CHECK(rates.together(13, 1) == 0.0);
    rates.clear();
    CHECK(rates.together(1, 1) == 0.0);
}

TEST_CASE("search: the least reduction is none that a cut has") {
    auto const model = *describe(presets::llama_2_7b);
    EstimateRequest const job{.batch = 16, .context = 128, .training = TrainingPlan{}};
    CostModel cost(model, job);
    auto const slots = find_slots(model, find_parts(model, false), false);
    SlotPricer pricer(cost, slots);
    auto const topology = cluster("2x(4xA100-80GB)");
    SiteFinder sites(topology);
    auto const setting = step_setting(cost, Pass::training);
    for (std::int64_t const pp : {1, 2}) {
        for (std::int64_t const dp : {2, 4}) {
            for (std::int32_t zero = 0; zero <= 3; ++zero) {
                PlanDegrees const degrees{.pp = pp, .dp = dp, .zero = zero, .micro_batches = 2};
                auto best = sites.best_site(1, 1);
                best.dp = sites.best_replicas(dp, 1);
                auto const& fastest = pricer.at(Pass::training, 1, best);
                auto const gather = min_gather_seconds(fastest.weights, best, setting);
                auto const least = min_reduction(fastest, gather, degrees, setting).added(0.0, 0.0, 1.0);
                for (auto const& layout : sites.layouts(degrees)) {
                    auto const found = sites.sites(degrees, layout);
                    double most = 0.0;
                    for (std::int64_t stage = 0; stage < pp; ++stage) {
                        StageCost own;
                        auto const& prices =
                            pricer.at(Pass::training, 1, found.stages[static_cast<std::size_t>(stage)]);
                        for (auto slot = slots.size() * stage / pp; slot < slots.size() * (stage + 1) / pp; ++slot)
                            own += prices.kinds[slots.kind_of[static_cast<std::size_t>(slot)]];
                        most =
                            std::max(most, detail::data_parallel_seconds(
                                               own, found.stages[static_cast<std::size_t>(stage)], degrees, setting));
                    }
                    CAPTURE(pp);
                    CAPTURE(dp);
                    CAPTURE(zero);
                    CHECK(least <= most * (1.0 + 1e-9));
                    CHECK(least >= 0.0);
                }
            }
        }
    }
    // Half of 10 seconds is hidden behind 4, a second more of arithmetic hides another one.
    MinReduction const reduction{.seconds = 10.0, .hideable = 4.0, .growth = 1.0, .overlap = 1.0};
    CHECK(reduction.added(0.0, 0.0, 2.0) == 6.0);
    CHECK(reduction.added(0.0, 5.0, 0.5) == 0.5 * 5.0 + 1.0);
}

TEST_CASE("search: the times of stages joined are the step's") {
    StepSetting setting{.pass = Pass::prefill};
    setting.efficiency.step_seconds = 0.5;
    detail::CutTimes times;
    for (double const seconds : {1.0, 3.0, 2.0})
        times = times.joined({.sum = seconds, .slowest = seconds, .reduce = 1.0});
    // The sum, and for each further micro-batch the slowest stage once more.
    CHECK(times.seconds(4.0, setting) == 6.0 + 3.0 * 3.0 + 1.0 + 0.5);
    setting.pass = Pass::decode;
    CHECK(times.seconds(4.0, setting) == 4.0 * 3.0 + 1.0 + 0.5);
    CHECK(times.is_no_worse(times));
    CHECK_FALSE(times.is_no_worse({.sum = 6.0, .slowest = 2.9, .reduce = 1.0}));
}

TEST_CASE("search: a micro-batch takes no less than the smaller one that stands for it") {
    auto const model = *describe(presets::qwen3_30b_a3b);
    auto const topology = cluster("2x(4xH100-80GB)+4xA100-80GB");
    for (bool const is_training : {false, true}) {
        PlanRequest request{.estimate = {.batch = 64, .context = 256}};
        if (is_training) request.estimate.training = TrainingPlan{};
        CostModel cost(model, request.estimate);
        auto const parts = find_parts(model, false);
        auto const slots = find_slots(model, parts, false);
        SlotPricer pricer(cost, slots);
        SiteFinder sites(topology);
        CutMemories memories(model, request.estimate, parts, slots);
        CapacityCheck capacity(model, request.estimate, slots, memories);
        auto const pass = is_training ? Pass::training : Pass::decode;
        auto const setting = step_setting(cost, pass);
        MicroBatchPrices micro_batches(pricer, sites, capacity, setting, {.tp = 8, .ep = 8});
        for (PlanDegrees const& degrees : {PlanDegrees{}, PlanDegrees{.tp = 4}, PlanDegrees{.tp = 2, .ep = 4}}) {
            auto const site = sites.sites(degrees, {}).stages[0];
            for (std::int64_t size = 1; size <= 64; size += size < 20 ? 1 : 11) {
                auto const& exact = pricer.at(pass, size, site);
                for (bool const is_first : {false, true}) {
                    auto const& micro_batch = micro_batches.at(degrees, size, is_first);
                    CHECK(micro_batch.size <= size);
                    CHECK(micro_batch.prices->total <= exact.total * (1.0 + 1e-12));
                    auto const& seconds = micro_batches.slot_seconds(degrees, micro_batch, size, slots.most_frequent());
                    for (std::size_t i = 0; i < seconds.size(); ++i) {
                        auto const& own = pricer.at(pass, size, sites.best_site(degrees.tp, degrees.ep, i));
                        CHECK(seconds[i] <= own.seconds[slots.most_frequent()] * (1.0 + 1e-12));
                        CHECK(seconds[i] > 0.0);
                    }
                    CHECK(micro_batches.step_seconds(degrees, micro_batch, micro_batch.prices->total) <=
                          detail::CutTimes{.sum = exact.total, .slowest = exact.total}.seconds(1.0, setting) *
                              (1.0 + 1e-12));
                }
            }
            auto const own = ceil_divide(64, degrees.ep);
            CHECK(micro_batches.shared_seconds(degrees, 64, 1, 1) <= pricer.at(pass, own, site).total);
            if (2 * degrees.ranks() <= sites.count())
                CHECK(micro_batches.shared_seconds(degrees, 64, 2, 1) <=
                      pricer.at(pass, ceil_divide(own, 2), site).total);
            CHECK(micro_batches.pass_seconds(degrees) <= pricer.at(pass, 1, site).total);
            CHECK(micro_batches.pass_seconds(degrees) >
                  0.5 * pricer.at(pass, 1, sites.best_site(degrees.tp, degrees.ep)).total);
        }
    }
}

TEST_CASE("search: the most frequent slots take at least what the fastest stages have no capacity for elsewhere") {
    auto const model = *describe(presets::llama_2_7b);
    EstimateRequest const job{.context = 128, .device = DeviceClass::cpu};
    CostModel cost(model, job);
    auto const parts = find_parts(model, false);
    auto const slots = find_slots(model, parts, false);
    SlotPricer pricer(cost, slots);
    CutMemories memories(model, job, parts, slots);
    auto topology = cluster("1xH100-80GB+1xT4");
    topology.devices[0].memory = 6_GiB;
    topology.devices[1].memory = 14_GiB;
    SiteFinder sites(topology);
    PlanDegrees const degrees{.pp = 2};
    auto const found = sites.sites(degrees, {});
    auto const setting = step_setting(cost, Pass::decode);
    List<SlotPrices const*> const prices{&pricer.at(Pass::decode, 1, found.stages[0]),
                                         &pricer.at(Pass::decode, 1, found.stages[1])};
    auto const memory = memories.of(degrees);
    StageTask const task{slots, degrees, found, prices, memory, setting};
    FrequentSlots const frequent(task);
    auto const kind = frequent.kind();
    CHECK(kind == slots.kind_of[5]);
    // 30 of 32 layers; as many as fit go to the faster device.
    auto const layer = memory.ranks[0].sum(slots, 5, 6).held.weights + memory.ranks[0].sum(slots, 5, 6).kv_cache;
    auto const here =
        (found.capacities[0].count() - memory.ranks[0].sum(slots, 5, 6).working.peak().count()) / layer.count();
    auto const expected = static_cast<double>(here) * prices[0]->seconds[kind] +
                          static_cast<double>(30 - here) * prices[1]->seconds[kind];
    CHECK(here > 5);
    CHECK(here < 30);
    CHECK(frequent.shortest_sum(1e300) == doctest::Approx(expected).epsilon(1e-12));
    // Neither holds them all in the time of twenty on the slower one and of five on the faster.
    CHECK(frequent.shortest_sum(5.5 * prices[0]->seconds[kind]) < 0.0);
}

TEST_CASE("search: whether some cut fits is known without the closest one") {
    auto const model = *describe(presets::llama_2_7b);
    for (std::string_view const spec : {"2xT4", "1xT4+1xA100-40GB", "3xRTX4090", "100xT4"}) {
        for (std::int64_t const batch : {1, 16, 64, 512}) {
            auto const topology = cluster(spec);
            PlanRequest const request{.estimate = {.batch = batch, .context = 2048}};
            PlanSearch search(model, topology, request);
            CAPTURE(spec);
            CAPTURE(batch);
            CHECK(has_cut(search) == plan_parallel(model, topology, request).has_value());
        }
    }
}
