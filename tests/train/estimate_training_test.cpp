// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/checkpoint/checkpoint_files.hpp>
#include <shardwise/train/estimate_training.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"

#include <atomic>
#include <cstdint>
#include <string>
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
    std::size_t number = 0;
    for (auto const& family : families) {
        CAPTURE(family.name);
        FormulaModel const files(family.config);
        for (int i = 0; i < 3; ++i, ++number) {
            auto const& way = ways[number % std::size(ways)];
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
