// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/kahan_sum.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "training_ways.hpp"

#include <filesystem>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("Trainer: an optimizer's state in a file gives the same bits, and takes no memory") {
    WaySample sample;
    CurveData const data;
    TemporaryFolder const folder;
    auto const config = golden_config("llama_tied");
    auto const expected = train(config, data, 5, AdamW{}, {});
    for (auto const& way : {Way{.offload_folder = folder.path()},
                            Way{.ranks = 3, .zero = ZeroStage::optimizer, .offload_folder = folder.path()},
                            Way{.ranks = 2, .zero = ZeroStage::weights, .threads = 2, .offload_folder = folder.path()}})
        sample.check(expected, config, data, 5, AdamW{}, way);
    // The file has no name.
    CHECK(std::filesystem::is_empty(folder.path()));
    TrainedModel model(config);
    auto const options = options_of({.offload_folder = folder.path() + "/absent"});
    auto const in_memory = Trainer<AdamW>::bytes(model.program, AdamW{}, {.context = 8, .batch = 2}, options_of({}));
    auto const in_file = Trainer<AdamW>::bytes(model.program, AdamW{}, {.context = 8, .batch = 2}, options);
    REQUIRE(in_memory);
    REQUIRE(in_file);
    // Two moments of each element.
    CHECK((*in_memory - *in_file).count() >= 8 * model.program.layout().whole_elements());
    auto const refused = train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options, 2);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::file_unwritable);
    CHECK(refused.error().message().find("/absent") != std::string::npos);
}

TEST_CASE("Trainer: weights, gradients and state in files give the same bits, in the predicted memory and traffic") {
    WaySample sample;
    CurveData const data;
    TemporaryFolder const folder;
    for (auto const* const name : {"llama_tied", "gpt2"}) {
        CAPTURE(name);
        auto const config = golden_config(name);
        auto const check = [&](auto const& rule, std::vector<Way> ways, Dtype precision) {
            auto const expected = train(config, data, 5, rule, {.precision = precision});
            for (auto& way : ways) {
                way.precision = precision;
                way.offload_folder = folder.path();
                way.offloads_all = true;
                CAPTURE(way.ranks);
                CAPTURE(way.tp);
                CAPTURE(static_cast<int>(way.zero));
                sample.check(expected, config, data, 5, rule, way);
            }
        };
        check(AdamW{},
              {Way{.micro_batch = 2, .threads = 2}, Way{.ranks = 2}, Way{.ranks = 3, .zero = ZeroStage::optimizer},
               Way{.ranks = 2, .zero = ZeroStage::gradients, .recompute = Recompute::full},
               Way{.ranks = 3, .zero = ZeroStage::weights, .micro_batch = 2}, Way{.ranks = 2, .tp = 2},
               Way{.ranks = 4, .zero = ZeroStage::weights, .tp = 2}, Way{.ranks = 2, .pp = 2},
               Way{.ranks = 4, .zero = ZeroStage::weights, .pp = 2, .pipeline = PipelineKind::zero_bubble}},
              Dtype::f32);
        // Without any state.
        check(Sgd{}, {Way{.micro_batch = 5}}, Dtype::f32);
        check(KahanSum<AdamW>{}, {Way{}, Way{.ranks = 2, .zero = ZeroStage::weights}, Way{.ranks = 2, .tp = 2}},
              Dtype::bf16);
    }
    CHECK(std::filesystem::is_empty(folder.path()));
    auto const config = golden_config("llama");
    TrainedModel model(config);
    auto options = options_of({});
    options.offloads_all = true;
    auto const nowhere = train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options);
    REQUIRE_FALSE(nowhere);
    CHECK(nowhere.error().message().find("offload_folder") != std::string::npos);
    options.offload_folder = folder.path();
    // Weights that lie in memory are not taken for it.
    CHECK_FALSE(train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options));
    // Of the model two layers are in memory.
    auto const bytes = [&](TrainOptions const& how) {
        return estimate_training(model.program, AdamW{}, data.batches().options(), how)->total().count();
    };
    auto const layers = GatheredLayers::bytes(model.program, {TensorPlace{}, Dtype::f32, folder.path()}).count();
    auto const kept = TrainingWeights::bytes(model.program.layout()) +
                      TrainingGradients::bytes(model.program.layout(), GradientSums{.leaves = 4});
    auto state_alone = options;
    state_alone.offloads_all = false;
    CHECK(bytes(state_alone) - bytes(options) == kept.count() - layers);
}
