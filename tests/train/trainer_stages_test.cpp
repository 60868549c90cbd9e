// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/kahan_sum.hpp>
#include <shardwise/train/sgd.hpp>

#include <doctest/doctest.h>

#include "../comm/shared_memory_ranks.hpp"
#include "training_ways.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// With more layers than it has.
std::string deep_config(std::string const& name) {
    auto config = golden_config(name);
    for (std::string const key : {"\"num_hidden_layers\":", "\"n_layer\":"}) {
        auto const at = config.find(key);
        if (at != std::string::npos) config.replace(at + key.size(), 1, "5");
    }
    return config;
}

}  // namespace

TEST_CASE("Trainer: stages of a pipeline give the bits of one rank, in the predicted memory, traffic and order") {
    WaySample sample;
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
                sample.check(expected, config, data, 5, AdamW{}, way);
            }
        }
    }
}

TEST_CASE("Trainer: as many stages as layers, in 16 bits and for every optimizer, give the bits of one rank") {
    WaySample sample;
    CurveData const data;
    auto const config = deep_config("llama_tied");
    for (auto const precision : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        CAPTURE(static_cast<int>(precision));
        auto const expected = train(config, data, 7, AdamW{}, {.precision = precision});
        for (auto way :
             {Way{.ranks = 5, .pp = 5}, Way{.ranks = 3, .micro_batch = 2, .pp = 3, .pipeline = PipelineKind::gpipe},
              Way{.ranks = 8, .zero = ZeroStage::gradients, .pp = 4}}) {
            way.precision = precision;
            sample.check(expected, config, data, 7, AdamW{}, way);
        }
    }
    CHECK(train(config, data, 7, Adam8bit{}, {.ranks = 4, .zero = ZeroStage::optimizer, .pp = 2}) ==
          train(config, data, 7, Adam8bit{}, {}));
    Way const way{.ranks = 3, .micro_batch = 4, .pp = 3};
    CHECK(train(config, data, 7, Sgd{.momentum = 0.9}, way) == train(config, data, 7, Sgd{.momentum = 0.9}, {}));
}

TEST_CASE("Trainer: stages with several chunks of the model give the bits of one rank") {
    WaySample sample;
    CurveData const data;
    for (auto const* const name : {"llama_tied", "gpt2"}) {
        CAPTURE(name);
        auto const config = deep_config(name);
        auto const expected = train(config, data, 8, AdamW{}, {.dropout = 0.1});
        for (auto way :
             {Way{.ranks = 2, .pp = 2}, Way{.ranks = 2, .micro_batch = 2, .recompute = Recompute::full, .pp = 2},
              Way{.ranks = 4, .zero = ZeroStage::optimizer, .pp = 2, .bucket_bytes = 2000},
              Way{.ranks = 4, .zero = ZeroStage::gradients, .micro_batch = 2, .pp = 2, .bucket_bytes = 2000},
              Way{.ranks = 4, .micro_batch = 4, .tp = 2, .pp = 2}}) {
            way.dropout = 0.1;
            way.pipeline = PipelineKind::interleaved;
            sample.check(expected, config, data, 8, AdamW{}, way);
        }
    }
}

TEST_CASE("Trainer: stages whose backward passes are in two parts give the bits of one rank") {
    WaySample sample;
    CurveData const data;
    for (auto const* const name : {"llama", "llama_tied", "gpt2"}) {
        CAPTURE(name);
        auto const config = deep_config(name);
        auto const expected = train(config, data, 7, AdamW{}, {.dropout = 0.1});
        for (auto const pipeline : {PipelineKind::zero_bubble, PipelineKind::zero_bubble_v}) {
            CAPTURE(static_cast<int>(pipeline));
            for (auto way : {Way{.ranks = 2, .threads = 2, .pp = 2},
                             Way{.ranks = 2, .micro_batch = 2, .recompute = Recompute::full, .pp = 2},
                             Way{.ranks = 4, .zero = ZeroStage::gradients, .micro_batch = 2, .pp = 2},
                             Way{.ranks = 6,
                             .zero = ZeroStage::optimizer,
                             .recompute = Recompute::selective,
                             .pp = 2,
                             .bucket_bytes = 2000},
                             Way{.ranks = 4, .recompute = Recompute::selective, .tp = 2, .pp = 2},
                             Way{.ranks = 8, .zero = ZeroStage::gradients, .micro_batch = 3, .tp = 2, .pp = 2}}) {
                way.dropout = 0.1;
                way.pipeline = pipeline;
                sample.check(expected, config, data, 7, AdamW{}, way);
            }
        }
        // Of replicas that have unlike many sequences, too, where each stage sums two chunks.
        sample.check(expected, config, data, 7, AdamW{},
                     {.ranks = 4,
                      .zero = ZeroStage::gradients,
                      .micro_batch = 2,
                      .dropout = 0.1,
                      .pp = 2,
                      .pipeline = PipelineKind::interleaved});
    }
}

TEST_CASE("Trainer: stages whose data-parallel ranks share weights give the bits of one rank") {
    WaySample sample;
    CurveData const data;
    for (auto const* const name : {"llama", "llama_tied", "gpt2"}) {
        CAPTURE(name);
        auto const config = deep_config(name);
        auto const expected = train(config, data, 7, AdamW{}, {.dropout = 0.1});
        for (auto way : {Way{.ranks = 2, .pp = 2}, Way{.ranks = 4, .threads = 2, .pp = 2},
                         Way{.ranks = 6, .micro_batch = 2, .pp = 2, .pipeline = PipelineKind::gpipe},
                         Way{.ranks = 10, .recompute = Recompute::selective, .pp = 5},
                         Way{.ranks = 4, .micro_batch = 2, .pp = 2, .pipeline = PipelineKind::interleaved},
                         Way{.ranks = 6, .recompute = Recompute::full, .pp = 2, .pipeline = PipelineKind::zero_bubble},
                         Way{.ranks = 4, .micro_batch = 3, .pp = 2, .pipeline = PipelineKind::zero_bubble_v},
                         Way{.ranks = 8, .micro_batch = 2, .tp = 2, .pp = 2, .pipeline = PipelineKind::zero_bubble}}) {
            CAPTURE(way.ranks);
            CAPTURE(static_cast<int>(way.pipeline));
            way.zero = ZeroStage::weights;
            way.dropout = 0.1;
            sample.check(expected, config, data, 7, AdamW{}, way);
        }
    }
}

TEST_CASE("Trainer: stages hold weights in bf16 without masters, with the bits of one rank") {
    WaySample sample;
    CurveData const data;
    for (auto const* const name : {"llama_tied", "gpt2"}) {
        CAPTURE(name);
        auto const config = deep_config(name);
        KahanSum<AdamW> const rule{};
        auto const expected = train(config, data, 7, rule, {.precision = Dtype::bf16});
        for (auto way :
             {Way{.ranks = 5, .pp = 5}, Way{.ranks = 4, .zero = ZeroStage::weights, .micro_batch = 2, .pp = 2},
              Way{.ranks = 4, .tp = 2, .pp = 2, .pipeline = PipelineKind::zero_bubble},
              Way{.ranks = 8, .zero = ZeroStage::weights, .tp = 2, .pp = 2},
              Way{.ranks = 4,
              .zero = ZeroStage::gradients,
              .recompute = Recompute::full,
              .pp = 2,
              .pipeline = PipelineKind::zero_bubble_v}}) {
            CAPTURE(way.ranks);
            CAPTURE(static_cast<int>(way.pipeline));
            way.precision = Dtype::bf16;
            sample.check(expected, config, data, 7, rule, way);
        }
    }
}

TEST_CASE("Trainer: what stages do not train yet is refused by name") {
    auto const refusal = [](TrainOptions const& options) {
        auto const checked = options.check();
        REQUIRE_FALSE(checked);
        return checked.error().message();
    };
    CHECK(refusal({.pp = 0}).find("pp") != std::string::npos);
    auto const config = golden_config("llama");
    FormulaModel const files(config);
    auto const& model = files.checkpoint->model;
    auto const error_of = [&](TrainOptions const& options) {
        auto const program = TrainingProgram::create(model, options.model_place(0));
        REQUIRE_FALSE(program);
        return program.error().message();
    };
    CHECK(error_of({.pp = 3}).find("is more than the model's 2 layers") != std::string::npos);
    CHECK(error_of({.pp = 2, .pipeline = PipelineKind::interleaved}).find("2 chunks") != std::string::npos);
    // Of another stage than the rank's.
    CurveData const data;
    auto const done = run_threads(2, [&](Threads& thread) -> Result<> {
        TrainOptions const options{.steps = 1, .pp = 2};
        TrainedModel own(config, 1, options.model_place(0));
        HostCommunicator comm(std::move(thread));
        auto const made =
            Trainer<AdamW>::create(own.context, comm, own.program, own.weights, AdamW{}, data.batches(2), options);
        return made ? Result<>{} : Result<>{made.error()};
    });
    REQUIRE_FALSE(done);
    CHECK(done.error().message().find("another stage") != std::string::npos);
}

TEST_CASE("Trainer: a stage that dies is named by the others within the limit") {
    CurveData const data;
    auto const config = golden_config("llama_tied");
    auto const body = [&](std::int32_t rank) {
        return [&, rank](SharedMemory& own) -> Result<> {
            TrainOptions options = options_of({.pp = 2});
            TrainedModel model(config, 1, options.model_place(rank));
            HostCommunicator comm(std::move(own));
            auto trainer = Trainer<AdamW>::create(model.context, comm, model.program, model.weights, AdamW{},
                                                  data.batches(4), options);
            if (!trainer) return trainer.error();
            auto stream = model.context.make_stream();
            auto const steps = trainer->run(stream, [&](TrainedStep const& step) -> Result<> {
                if (step.number == 1 && rank == 1) raise(SIGKILL);
                return {};
            });
            return steps ? Result<>{} : Result<>{steps.error()};
        };
    };
    auto const died = shared_memory::run_ranks({body(0), body(1), body(2), body(3)});
    for (std::size_t const rank : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
        CAPTURE(rank);
        CAPTURE(died[rank].message);
        REQUIRE(died[rank].has_answered);
        CHECK(died[rank].code == ErrorCode::rank_lost);
        CHECK(died[rank].message.find("rank 1") != std::string::npos);
    }
}

TEST_CASE("Trainer: stages that are processes give the bits of threads") {
    CurveData const data;
    auto const config = golden_config("llama_tied");
    auto const expected = train(config, data, 4, AdamW{}, {});
    auto const body = [&](std::int32_t rank) {
        return [&, rank](SharedMemory& own) -> Result<> {
            TrainOptions options = options_of({.micro_batch = 2, .pp = 2});
            TrainedModel model(config, 1, options.model_place(rank));
            HostCommunicator comm(std::move(own));
            auto trainer = Trainer<AdamW>::create(model.context, comm, model.program, model.weights, AdamW{},
                                                  data.batches(4), options);
            if (!trainer) return trainer.error();
            auto stream = model.context.make_stream();
            auto const steps = trainer->run(stream);
            if (!steps) return steps.error();
            auto own_weights = expected.weights;
            put_weights(model, own_weights);
            bool const is_same = *steps == expected.steps && own_weights == expected.weights;
            return is_same ? Result<>{} : Error{ErrorCode::invalid_argument}.because("other bits");
        };
    };
    for (auto const& outcome : shared_memory::run_ranks({body(0), body(1)})) {
        CAPTURE(outcome.message);
        CHECK(outcome.succeeded);
    }
}

TEST_SUITE("long") {
    TEST_CASE(
        "Trainer: every table of a pipeline gives the bits of one rank, with any degrees, ZeRO and recomputation") {
        CurveData const data;
        constexpr std::int64_t batch = 7;
        for (auto const* const name : {"llama_tied", "gpt2"}) {
            auto const config = deep_config(name);
            auto const expected = train(config, data, batch, AdamW{}, {.dropout = 0.1});
            auto const check = [&](Way const& way) {
                auto const dp = way.ranks / way.replica();
                auto const fills = [&](std::int64_t rank) {
                    auto const leaves = split_units(batch, dp, rank).size();
                    return ceil_divide(leaves, way.micro_batch) % way.pp == 0;
                };
                // Interleaved tables are of a multiple of the stages; the last of the ranks has fewest leaves.
                if (way.pipeline == PipelineKind::interleaved && !(fills(0) && fills(dp - 1))) return;
                if (way.pp * pipeline_chunks(way.pipeline) > 5) return;
                CAPTURE(name);
                CAPTURE(way.ranks);
                CAPTURE(way.tp);
                CAPTURE(way.pp);
                CAPTURE(static_cast<int>(way.zero));
                CAPTURE(static_cast<int>(way.pipeline));
                CAPTURE(way.micro_batch);
                CHECK(train(config, data, batch, AdamW{}, way) == expected);
            };
            for (std::int32_t dp = 1; dp <= 4; ++dp) {
                for (std::int32_t tp = 1; tp <= 2; ++tp) {
                    for (std::int32_t pp = 2; pp <= 5 && dp * tp * pp <= 8; ++pp) {
                        for (auto const pipeline :
                             {PipelineKind::gpipe, PipelineKind::one_forward_one_backward, PipelineKind::interleaved,
                              PipelineKind::zero_bubble, PipelineKind::zero_bubble_v}) {
                            for (auto const zero :
                                 {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::weights}) {
                                for (std::int64_t micro_batch = 1; micro_batch <= 3; ++micro_batch) {
                                    auto const kind = (micro_batch + static_cast<std::int64_t>(zero)) % 3;
                                    check({.ranks = dp * tp * pp,
                                           .zero = zero,
                                           .micro_batch = micro_batch,
                                           .recompute = static_cast<Recompute>(kind),
                                           .dropout = 0.1,
                                           .tp = tp,
                                           .pp = pp,
                                           .pipeline = pipeline});
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
