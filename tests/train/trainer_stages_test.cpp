// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/sgd.hpp>

#include <doctest/doctest.h>

#include "training_ways.hpp"

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("Trainer: stages of a pipeline give the bits of one rank, in the predicted memory, traffic and order") {
    CurveData const data;
    for (auto const* const name : {"llama", "llama_tied", "gpt2"}) {
        CAPTURE(name);
        auto const config = golden_config(name);
        auto const expected = train(config, data, 5, AdamW{}, {.dropout = 0.1});
        for (auto const pipeline : {PipelineKind::gpipe, PipelineKind::one_forward_one_backward}) {
            CAPTURE(static_cast<int>(pipeline));
            for (auto way : {Way{.ranks = 2, .pp = 2},
                             Way{.ranks = 2, .micro_batch = 2, .threads = 2, .recompute = Recompute::full, .pp = 2},
                             Way{.ranks = 4, .zero = ZeroStage::optimizer, .micro_batch = 2, .pp = 2},
                             Way{.ranks = 6, .zero = ZeroStage::gradients, .recompute = Recompute::selective, .pp = 2},
                             Way{.ranks = 4, .tp = 2, .pp = 2},
                             Way{.ranks = 8, .zero = ZeroStage::gradients, .micro_batch = 3, .tp = 2, .pp = 2}}) {
                way.dropout = 0.1;
                way.pipeline = pipeline;
                CHECK(train(config, data, 5, AdamW{}, way) == expected);
            }
        }
    }
}

TEST_CASE("Trainer: as many stages as layers, in 16 bits and for every optimizer, give the bits of one rank") {
    CurveData const data;
    auto config = golden_config("llama_tied");
    auto const layers = config.find("\"num_hidden_layers\":2");
    REQUIRE(layers != std::string::npos);
    config.replace(layers, 21, "\"num_hidden_layers\":5");
    for (auto const precision : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        CAPTURE(static_cast<int>(precision));
        auto const expected = train(config, data, 7, AdamW{}, {.precision = precision});
        for (auto way :
             {Way{.ranks = 5, .pp = 5}, Way{.ranks = 3, .micro_batch = 2, .pp = 3, .pipeline = PipelineKind::gpipe},
              Way{.ranks = 8, .zero = ZeroStage::gradients, .pp = 4}}) {
            way.precision = precision;
            CHECK(train(config, data, 7, AdamW{}, way) == expected);
        }
    }
    CHECK(train(config, data, 7, Adam8bit{}, {.ranks = 4, .zero = ZeroStage::optimizer, .pp = 2}) ==
          train(config, data, 7, Adam8bit{}, {}));
    Way const way{.ranks = 3, .micro_batch = 4, .pp = 3};
    CHECK(train(config, data, 7, Sgd{.momentum = 0.9}, way) == train(config, data, 7, Sgd{.momentum = 0.9}, {}));
}
