// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/checkpoint/checkpoint_files.hpp>
#include <shardwise/train/choose_training.hpp>
#include <shardwise/train/estimate_training.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"
#include "pair_sample.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

struct Way {
    std::int32_t dp = 1;
    std::int32_t tp = 1;
    ZeroStage zero = ZeroStage::none;
    Recompute recompute = Recompute::none;
    Dtype precision = Dtype::f32;
    std::int64_t micro_batch = 1;
    std::int32_t pp = 1;
    bool has_one_copy = false;
};
constexpr Way ways[] = {
    {},
    {1, 1, ZeroStage::none, Recompute::full, Dtype::bf16, 4},
    {2, 1, ZeroStage::none, Recompute::selective, Dtype::f32, 2},
    {2, 1, ZeroStage::optimizer, Recompute::none, Dtype::f16, 1},
    {2, 1, ZeroStage::gradients, Recompute::full, Dtype::f32, 2},
    {3, 1, ZeroStage::optimizer, Recompute::none, Dtype::f32, 2},
    {1, 2, ZeroStage::none, Recompute::none, Dtype::f32, 3},
    {2, 2, ZeroStage::gradients, Recompute::selective, Dtype::bf16, 1},
    {2, 1, ZeroStage::weights, Recompute::none, Dtype::f32, 2},
    {3, 1, ZeroStage::weights, Recompute::full, Dtype::f32, 1},
    {2, 2, ZeroStage::weights, Recompute::none, Dtype::f32, 1},
    {1, 1, ZeroStage::none, Recompute::none, Dtype::f32, 1, 2},
    {2, 1, ZeroStage::optimizer, Recompute::full, Dtype::bf16, 2, 2},
    {1, 2, ZeroStage::none, Recompute::selective, Dtype::f32, 1, 2},
    {2, 1, ZeroStage::none, Recompute::none, Dtype::f32, 2, 1, true},
    {3, 1, ZeroStage::gradients, Recompute::full, Dtype::f32, 1, 1, true},
};

/// What ways differ in.
std::vector<std::string> features_of(Way const& way) {
    auto const of = [](char const* name, std::int64_t value) { return name + std::to_string(value); };
    return {of("dp ", way.dp),
            of("tp ", way.tp),
            of("pp ", way.pp),
            of("zero ", static_cast<std::int64_t>(way.zero)),
            of("recompute ", static_cast<std::int64_t>(way.recompute)),
            of("precision ", static_cast<std::int64_t>(way.precision)),
            of("one copy ", way.has_one_copy ? 1 : 0)};
}

/// Trains a step over ranks and holds what each of them allocates to the estimate.
template <class Rule>
void check(FormulaModel const& files, Rule const& rule, Way const& way) {
    auto const& model = files.checkpoint->model;
    CAPTURE(way.dp);
    CAPTURE(way.tp);
    CAPTURE(way.pp);
    CAPTURE(static_cast<int>(way.zero));
    TrainOptions options{.steps = 1, .micro_batch = way.micro_batch};
    options.tp = way.tp;
    options.pp = way.pp;
    options.zero = way.zero;
    options.has_one_copy = way.has_one_copy;
    options.recompute = way.recompute;
    options.precision = way.precision;
    CurveData const data(model.config.vocab_size);
    std::atomic<int> checked = 0;
    auto const weights = [&](HostContext& own, TrainingPlace const& place, WeightStorage const& storage) {
        auto const stored = TrainedModel::take(StoredParameters::open(files.source, model));
        auto loaded = TrainingWeights::load(own, stored, place, {}, 0, {}, storage);
        if (loaded) CHECK(own.memory().current() == TrainingWeights::bytes(loaded->layout(), storage));
        return loaded;
    };
    auto const body = [&](Trainer<Rule>& trainer, HostStream& stream) -> Result<> {
        TensorPlace const place{trainer.comm().size(), trainer.comm().rank()};
        auto const own = TrainingProgram::create(model, trainer.weights().layout().place());
        if (!own) return own.error();
        auto const& memory = trainer.context().memory();
        auto const alone = estimate_training(*own, rule, trainer.batches().options(), options, place);
        auto const saving = estimate_training(*own, rule, trainer.batches().options(), options, place, true);
        if (!alone || !saving) return alone ? saving.error() : alone.error();
        CHECK(memory.current() == alone->total());
        auto const layout = CheckpointLayout::create(model, rule);
        if (!layout) return layout.error();
        auto const parts = checkpoint_parts(*layout, trainer.weights(), trainer.optimizer(), place);
        if (!parts) return parts.error();
        CHECK(CheckpointSaver<>::staging_bytes({parts->data(), parts->size()}) == saving->staging);
        if (auto const stepped = trainer.step(stream); !stepped) return stepped.error();
        CHECK(memory.peak() == alone->total());
        ++checked;
        return {};
    };
    HostContext context({.threads = 1});
    auto const ranks = way.dp * way.tp * way.pp;
    auto const done = train_ranks(context, model, weights, rule, data.batches(), options, ranks, body);
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    CHECK(checked == ranks);
}

}  // namespace

TEST_CASE(
    "estimate_training: is what ranks allocate to the byte, over families, ranks, ZeRO, recomputation, precision and "
    "micro-batches") {
    auto const families = golden_trainings();
    REQUIRE(families.size() >= 13);
    PairSample sample("estimate");
    std::size_t number = 0;
    for (auto const& family : families) {
        CAPTURE(family.name);
        FormulaModel const files(family.config);
        for (int i = 0; i < 3; ++i, ++number) {
            auto const& way = ways[number % std::size(ways)];
            if (!sample.takes(features_of(way), {"rule " + std::to_string(number % 3), family.name})) continue;
            if (number % 3 == 0)
                check(files, Sgd{.momentum = 0.9}, way);
            else if (number % 3 == 1 && way.tp == 1)
                check(files, Adam8bit{}, way);
            else
                check(files, AdamW{}, way);
        }
    }
    CHECK(number >= 30);
}

namespace {

/// The best of all ways, found by trying each with every micro-batch.
template <class Rule>
TrainingChoice try_all(TrainingSearch<Rule>& search, TrainingMachines const& machines, std::int64_t batch) {
    std::vector<TrainingWay> fitting;
    for (std::int64_t dp = 1; dp <= machines.ranks; ++dp) {
        for (std::int64_t tp = 1; tp <= machines.ranks; ++tp) {
            for (std::int64_t pp = 1; pp <= machines.ranks; ++pp) {
                for (auto const zero :
                     {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::weights}) {
                    TrainingWay way{.dp = dp, .tp = tp, .pp = pp, .zero = zero};
                    if (dp * tp * pp != machines.ranks || (dp == 1 && zero != ZeroStage::none) || !search.check(way))
                        continue;
                    for (way.micro_batch = max_micro_batch(batch, dp, pp); way.micro_batch > 0; --way.micro_batch) {
                        way.fullest = *search.fullest(way);
                        if (way.fullest > machines.memory) continue;
                        way.seconds = search.seconds(way);
                        fitting.push_back(way);
                        break;
                    }
                }
            }
        }
    }
    TrainingChoice out;
    for (auto const& way : fitting) {
        auto const key = [](TrainingWay const& of) { return std::tuple(of.seconds, of.zero, of.pp, of.tp); };
        if (!out.is_fitting || key(way) < key(out.way)) out.way = way;
        out.is_fitting = true;
    }
    return out;
}

}  // namespace

TEST_CASE("TrainingSearch: what it finds is the best of all ways, whatever memory machines have") {
    FormulaModel const files(golden_config("llama"));
    auto const& model = files.checkpoint->model;
    CurveData const data(model.config.vocab_size);
    auto const batch = data.batches().options();
    AdamW const rule;
    RopeDivisors const divisors;
    std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, int>> chosen;
    for (auto machines :
         {TrainingMachines{.ranks = 1, .per_machine = 1}, TrainingMachines{.ranks = 2, .per_machine = 1},
          TrainingMachines{.ranks = 4, .per_machine = 4}, TrainingMachines{.ranks = 4, .per_machine = 2},
          TrainingMachines{.ranks = 4, .per_machine = 1}}) {
        CAPTURE(machines.ranks);
        CAPTURE(machines.per_machine);
        // Slow links, so that times differ by what is taken.
        machines.between_bytes = 1e7;
        TrainingSearch<AdamW> counts(model, rule, batch, {}, machines, {}, {}, false, divisors);
        auto const tried = counts.ways();
        REQUIRE(tried);
        std::set<std::int64_t> limits{1};
        for (auto const& way : *tried) limits.insert(counts.fullest(way)->count());
        for (auto const limit : limits) {
            machines.memory = Bytes{limit};
            TrainingSearch<AdamW> search(model, rule, batch, {}, machines, {}, {}, false, divisors);
            auto const found = search.run();
            REQUIRE(found);
            auto const expected = try_all(search, machines, batch.batch);
            REQUIRE(found->is_fitting == expected.is_fitting);
            if (!found->is_fitting) {
                CHECK(found->way.fullest.count() == *std::next(limits.begin()));
                continue;
            }
            CHECK(found->way == expected.way);
            CHECK(found->way.fullest <= machines.memory);
            if (found->faster) CHECK(found->faster->fullest > machines.memory);
            chosen.insert({found->way.dp, found->way.tp, found->way.pp, static_cast<int>(found->way.zero)});
        }
    }
    // Not always the same one.
    CHECK(chosen.size() >= 5);
}

TEST_CASE("TrainingSearch: a model that fits over stages alone gets them, and takes what was counted when it runs") {
    FormulaModel const files(golden_config("llama"));
    auto const& model = files.checkpoint->model;
    CurveData const data(model.config.vocab_size);
    auto const batch = data.batches().options();
    Adam8bit const rule;
    RopeDivisors const divisors;
    TrainingMachines machines{.ranks = 2, .per_machine = 1, .memory = Bytes{std::int64_t{1} << 40U}};
    TrainingPins const pins{.tp = 1, .zero = ZeroStage::none};
    TrainingSearch<Adam8bit> ample(model, rule, batch, {}, machines, pins, {}, false, divisors);
    auto const roomy = ample.run();
    REQUIRE(roomy);
    CHECK(roomy->way.dp == 2);
    CHECK_FALSE(roomy->faster);
    auto whole = roomy->way;
    whole.micro_batch = 1;
    machines.memory = *ample.fullest(whole) - Bytes{1};
    TrainingSearch<Adam8bit> search(model, rule, batch, {}, machines, pins, {}, false, divisors);
    auto const found = search.run();
    REQUIRE(found);
    REQUIRE(found->is_fitting);
    CHECK(found->way.pp == 2);
    REQUIRE(found->faster);
    CHECK(found->faster->dp == 2);
    TrainOptions options{.steps = 1, .micro_batch = found->way.micro_batch};
    options.pp = 2;
    auto const weights = [&](HostContext& own, TrainingPlace const& place) {
        auto const stored = TrainedModel::take(StoredParameters::open(files.source, model));
        return TrainingWeights::load(own, stored, place);
    };
    std::atomic<std::int64_t> most = 0;
    auto const body = [&](Trainer<Adam8bit>& trainer, HostStream& stream) -> Result<> {
        if (auto const stepped = trainer.step(stream); !stepped) return stepped.error();
        auto const peak = trainer.context().memory().peak().count();
        for (auto seen = most.load(); seen < peak && !most.compare_exchange_weak(seen, peak);) {
        }
        return {};
    };
    HostContext context({.threads = 1});
    auto const done = train_ranks(context, model, weights, rule, data.batches(), options, 2, body);
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    CHECK(most == found->way.fullest.count());
    CHECK(most <= machines.memory.count());
    // With what is pinned it cannot fit, and says what would.
    TrainingSearch<Adam8bit> pinned(model, rule, batch, {}, machines, {.dp = 2, .zero = ZeroStage::none}, {}, false,
                                    divisors);
    auto const none = pinned.run();
    REQUIRE(none);
    CHECK_FALSE(none->is_fitting);
    CHECK(none->way.dp == 2);
    TrainingSearch<Adam8bit> impossible(model, rule, batch, {}, machines, {.dp = 2, .tp = 2}, {}, false, divisors);
    CHECK_FALSE(impossible.run());
}
