// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/estimate_training.hpp>
#include <shardwise/train/kahan_sum.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "../comm/shared_memory_ranks.hpp"
#include "training_ways.hpp"

#include <algorithm>
#include <utility>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("Trainer: any ranks at any ZeRO stage give the bits of one, in the predicted memory and traffic") {
    WaySample sample;
    CurveData const data;
    for (auto const* const name : {"llama", "llama_tied", "gpt2"}) {
        auto const config = golden_config(name);
        auto const expected = train(config, data, 5, AdamW{}, {});
        REQUIRE(expected.steps.size() == few_steps);
        CHECK(expected.steps.front().norm > 0.5);
        for (std::int32_t ranks = 1; ranks <= 5; ++ranks) {
            for (auto const zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::weights}) {
                CAPTURE(name);
                CAPTURE(ranks);
                CAPTURE(static_cast<int>(zero));
                sample.check(expected, config, data, 5, AdamW{}, {.ranks = ranks, .zero = zero, .micro_batch = 2});
            }
        }
    }
}

TEST_CASE(
    "Trainer: tensor-parallel ranks give the bits of one, with data-parallel ones too, in the predicted memory and "
    "traffic") {
    WaySample sample;
    CurveData const data;
    for (auto const* const name : {"llama_tied", "gpt2"}) {
        CAPTURE(name);
        auto const config = golden_config(name);
        auto const expected = train(config, data, 5, AdamW{}, {.dropout = 0.1});
        for (auto const& way :
             {Way{.ranks = 2, .micro_batch = 2, .dropout = 0.1, .tp = 2},
              Way{.ranks = 4, .zero = ZeroStage::optimizer, .dropout = 0.1, .tp = 2},
              Way{.ranks = 4, .zero = ZeroStage::gradients, .recompute = Recompute::selective, .dropout = 0.1, .tp = 2},
              Way{.ranks = 4,
              .zero = ZeroStage::weights,
              .micro_batch = 2,
              .recompute = Recompute::full,
              .dropout = 0.1,
              .tp = 2},
              Way{.ranks = 6, .zero = ZeroStage::weights, .threads = 2, .dropout = 0.1, .tp = 2}})
            sample.check(expected, config, data, 5, AdamW{}, way);
    }
    // Key-value heads that several ranks read, fused with the queries of one of them, too; norms of whole rows.
    for (auto const* const name : {"qwen3", "falcon_multi_query", "olmo2", "phi3", "falcon_groups"}) {
        CAPTURE(name);
        auto const config = golden_config(name);
        Way way{.ranks = 6, .tp = 6};
        if (config.find("multi_query") != std::string::npos) way = {.ranks = 12, .zero = ZeroStage::optimizer, .tp = 6};
        auto const expected = train(config, data, 5, AdamW{}, {});
        CHECK(train(config, data, 5, AdamW{}, way) == expected);
        if (config.find("multi_query") != std::string::npos) continue;
        // Ranks that share one key-value head have another one alone.
        for (auto const& uneven : {Way{.ranks = 3, .tp = 3}, Way{.ranks = 8, .zero = ZeroStage::optimizer, .tp = 4},
                                   Way{.ranks = 5, .micro_batch = 2, .threads = 2, .tp = 5},
                                   Way{.ranks = 6, .zero = ZeroStage::weights, .recompute = Recompute::full, .tp = 3},
                                   Way{.ranks = 6, .zero = ZeroStage::gradients, .tp = 3}})
            sample.check(expected, config, data, 5, AdamW{}, uneven);
    }
    // Six heads with keys of their own: two, two, one and one.
    auto const config = golden_config("llama_tied");
    CHECK(train(config, data, 5, Sgd{.momentum = 0.9},
                {.ranks = 4, .micro_batch = 3, .threads = 2, .recompute = Recompute::full, .tp = 4}) ==
          train(config, data, 5, Sgd{.momentum = 0.9}, {}));
}

TEST_CASE("Trainer: what is computed again changes no bit on any ranks, in the predicted memory") {
    WaySample sample;
    CurveData const data;
    for (auto const* const name : {"llama", "gpt2", "gemma2"}) {
        CAPTURE(name);
        auto const config = golden_config(name);
        auto const expected = train(config, data, 5, AdamW{}, {});
        for (auto const recompute : {Recompute::selective, Recompute::full}) {
            CAPTURE(static_cast<int>(recompute));
            for (auto way :
                 {Way{.ranks = 1, .micro_batch = 5}, Way{.ranks = 2, .zero = ZeroStage::optimizer, .micro_batch = 2},
                  Way{.ranks = 3, .zero = ZeroStage::gradients, .threads = 2},
                  Way{.ranks = 2, .zero = ZeroStage::weights, .micro_batch = 2}}) {
                way.recompute = recompute;
                sample.check(expected, config, data, 5, AdamW{}, way);
            }
        }
    }
}

TEST_CASE("Trainer: dropout leaves the same elements on any ranks, also where they are computed again") {
    WaySample sample;
    CurveData const data;
    auto const config = golden_config("gpt2");
    auto const expected = train(config, data, 5, AdamW{}, {.dropout = 0.1});
    CHECK(expected.steps.front().loss != train(config, data, 5, AdamW{}, {}).steps.front().loss);
    sample.check(expected, config, data, 5, AdamW{}, {.ranks = 2, .micro_batch = 3, .dropout = 0.1});
    sample.check(expected, config, data, 5, AdamW{},
                 {.ranks = 3, .zero = ZeroStage::gradients, .recompute = Recompute::full, .dropout = 0.1});
}

TEST_CASE("Trainer: in 16 bits, any ranks give the bits of one, in the predicted memory and traffic") {
    WaySample sample;
    CurveData const data;
    for (auto const& [config_name, precision] : {std::pair{"llama_tied", Dtype::bf16}, std::pair{"gpt2", Dtype::f16}}) {
        std::string const name = config_name;
        CAPTURE(name);
        auto const config = golden_config(name);
        auto const expected = train(config, data, 5, AdamW{}, {.dropout = 0.1, .precision = precision});
        CHECK_FALSE(expected == train(config, data, 5, AdamW{}, {.dropout = 0.1}));
        for (auto const& way :
             {Way{.micro_batch = 5, .threads = 2, .dropout = 0.1, .precision = precision},
              Way{.ranks = 2, .micro_batch = 2, .recompute = Recompute::full, .dropout = 0.1, .precision = precision},
              Way{.ranks = 3, .zero = ZeroStage::gradients, .dropout = 0.1, .precision = precision},
              Way{.ranks = 4,
              .zero = ZeroStage::optimizer,
              .recompute = Recompute::selective,
              .dropout = 0.1,
              .tp = 2,
              .precision = precision},
              Way{.ranks = 4, .zero = ZeroStage::weights, .dropout = 0.1, .tp = 2, .precision = precision},
              Way{.ranks = 3, .zero = ZeroStage::weights, .micro_batch = 2, .dropout = 0.1, .precision = precision}})
            sample.check(expected, config, data, 5, AdamW{}, way);
    }
    // Norms of whole rows, and key-value heads that several ranks read.
    for (auto const* const name : {"qwen3", "olmo2"}) {
        CAPTURE(name);
        auto const config = golden_config(name);
        CHECK(train(config, data, 5, AdamW{}, {.ranks = 6, .tp = 6, .precision = Dtype::bf16}) ==
              train(config, data, 5, AdamW{}, {.precision = Dtype::bf16}));
    }
}

TEST_CASE(
    "Trainer: weights in bfloat16 without masters are trained with the bits of one rank, in the predicted memory and "
    "traffic") {
    WaySample sample;
    CurveData const data;
    for (auto const* const name : {"llama_tied", "gpt2"}) {
        CAPTURE(name);
        auto const config = golden_config(name);
        KahanSum<AdamW> const rule{};
        auto const expected = train(config, data, 5, rule, {.precision = Dtype::bf16});
        CHECK(std::all_of(expected.weights.begin(), expected.weights.end(),
                          [](float weight) { return weight == from_bf16(to_bf16(weight)); }));
        // The same model but for the roundings of its weights.
        auto const masters = train(config, data, 5, AdamW{}, {.precision = Dtype::bf16});
        CHECK_FALSE(expected == masters);
        CHECK(expected.valid == doctest::Approx(masters.valid).epsilon(0.01));
        for (auto const zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::weights}) {
            CAPTURE(static_cast<int>(zero));
            sample.check(expected, config, data, 5, rule,
                         {.ranks = 3, .zero = zero, .micro_batch = 2, .precision = Dtype::bf16});
        }
        sample.check(expected, config, data, 5, rule,
                     {.micro_batch = 5, .threads = 2, .recompute = Recompute::full, .precision = Dtype::bf16});
        // Tensor-parallel ranks hold copies in bf16, too.
        for (auto const& way :
             {Way{.ranks = 2, .tp = 2, .precision = Dtype::bf16},
              Way{.ranks = 4, .zero = ZeroStage::optimizer, .micro_batch = 2, .tp = 2, .precision = Dtype::bf16},
              Way{.ranks = 4,
              .zero = ZeroStage::weights,
              .recompute = Recompute::full,
              .tp = 2,
              .precision = Dtype::bf16}})
            sample.check(expected, config, data, 5, rule, way);
    }
    TrainedModel model(golden_config("llama"));
    auto const refused =
        train_ranks(model.context, model.program, model.weights, KahanSum<AdamW>{}, data.batches(), options_of({}));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("are not held as") != std::string::npos);
}

TEST_CASE("Trainer: any micro-batch and threads on ranks give the bits of one, for every optimizer") {
    WaySample sample;
    CurveData const data;
    auto const config = golden_config("llama_tied");
    auto const check = [&](auto const& rule) {
        auto const expected = train(config, data, 8, rule, {});
        sample.check(expected, config, data, 8, rule, {.ranks = 2, .zero = ZeroStage::optimizer, .micro_batch = 3});
        sample.check(expected, config, data, 8, rule,
                     {.ranks = 3, .zero = ZeroStage::gradients, .micro_batch = 2, .threads = 2});
        sample.check(expected, config, data, 8, rule, {.ranks = 4, .micro_batch = 9});
        sample.check(expected, config, data, 8, rule, {.ranks = 3, .zero = ZeroStage::weights, .micro_batch = 2});
    };
    check(Adam8bit{});
    check(Sgd{.momentum = 0.9, .is_nesterov = true});
}

TEST_CASE(
    "Trainer: a rank whose sequences have no token that counts takes part, and the mean is over the tokens of all") {
    // The sequences of ranks 1 and, in the second step, 0 count nothing.
    std::string counts(CurveData::size, '\1');
    for (std::size_t i = 2 * golden_context + 1; i < 4 * golden_context + 1; ++i) counts[i] = '\0';
    for (std::size_t i = 4 * golden_context + 1; i < 6 * golden_context + 1; ++i) counts[i] = '\0';
    WaySample sample;
    CurveData const data(97, golden_tokens(CurveData::size), counts);
    auto const config = golden_config("gpt2");
    auto const expected = train(config, data, 4, AdamW{}, {});
    for (std::int32_t const ranks : {2, 4}) {
        for (auto const zero : {ZeroStage::none, ZeroStage::gradients, ZeroStage::weights})
            sample.check(expected, config, data, 4, AdamW{}, {.ranks = ranks, .zero = zero});
    }
    // The same sequences without the others are a batch of two.
    std::vector<std::int32_t> half;
    auto const all = golden_tokens(CurveData::size);
    half.assign(all.begin(), all.begin() + 2 * golden_context + 1);
    CurveData const rest(97, half);
    TrainedModel alone(config);
    auto options = options_of({});
    options.steps = 1;
    auto const first = train_ranks(alone.context, alone.program, alone.weights, AdamW{}, rest.batches(2), options);
    REQUIRE(first);
    CHECK(first->front() == expected.steps.front());
}

TEST_CASE("Trainer: a run that goes on from its state equals one that was not interrupted, on other ranks too") {
    CurveData const data;
    auto const config = golden_config("llama_tied");
    auto const options = options_of({});
    auto const expected = train(config, data, 4, AdamW{}, {});
    for (std::int64_t cut = 0; cut <= few_steps; ++cut) {
        TrainedModel model(config);
        std::vector<TrainedStep> steps;
        TrainerPosition state;
        std::vector<std::byte> kept;
        auto const before = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
            auto const ran = trainer.run(stream, [&](TrainedStep const& step) -> Result<> {
                if (step.number + 1 == cut) trainer.request_stop();
                return {};
            });
            if (!ran) return ran.error();
            if (trainer.comm().rank() > 0) return {};
            steps = *ran;
            state = trainer.state();
            for (std::size_t i = 0; i < trainer.optimizer().parameters().size(); ++i) {
                for (std::size_t array = 0; array < trainer.optimizer().state(i).count; ++array) {
                    auto const bytes = trainer.optimizer().state_memory(i, array);
                    kept.insert(kept.end(), bytes.begin(), bytes.end());
                }
            }
            return {};
        };
        auto const after = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
            if (auto const done = trainer.restore(state); !done) return done;
            auto const* from = kept.data();
            for (std::size_t i = 0; i < trainer.optimizer().parameters().size(); ++i) {
                for (std::size_t array = 0; array < trainer.optimizer().state(i).count; ++array) {
                    auto const bytes = trainer.optimizer().state_memory(i, array);
                    std::copy_n(from, bytes.size(), bytes.begin());
                    from += bytes.size();
                }
            }
            auto const ran = trainer.run(stream);
            if (!ran) return ran.error();
            if (trainer.comm().rank() == 0) steps.insert(steps.end(), ran->begin(), ran->end());
            return {};
        };
        if (cut > 0) {
            REQUIRE(
                train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options, 3, before));
            CHECK(state == TrainerPosition{cut, {}});
            REQUIRE(steps.size() == static_cast<std::size_t>(cut));
            REQUIRE(
                train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options, 2, after));
        } else {
            auto const ran =
                train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options, 2);
            REQUIRE(ran);
            steps = *ran;
        }
        CHECK(steps == expected.steps);
        auto const* const first = model.weights.data();
        CHECK(std::vector<float>(first, first + model.program.layout().weight_elements()) == expected.weights);
    }
}

TEST_CASE("Trainer: ranks that are processes give the bits of threads, and name one that dies") {
    CurveData const data;
    auto const config = golden_config("llama_tied");
    auto const expected = train(config, data, 4, AdamW{}, {});
    auto const body = [&](ZeroStage zero, std::int64_t dies_after) {
        return [&, zero, dies_after](SharedMemory& own) -> Result<> {
            bool const is_shared = zero == ZeroStage::weights;
            TrainedModel model(config, 1, {}, is_shared ? TensorPlace{own.size(), own.rank()} : TensorPlace{});
            HostCommunicator comm(std::move(own));
            auto trainer = Trainer<AdamW>::create(model.context, comm, model.program, model.weights, AdamW{},
                                                  data.batches(), options_of({.zero = zero}));
            if (!trainer) return trainer.error();
            auto stream = model.context.make_stream();
            auto const steps = trainer->run(stream, [&](TrainedStep const& step) -> Result<> {
                if (step.number == dies_after) raise(SIGKILL);
                return {};
            });
            if (!steps) return steps.error();
            auto weights = expected.weights;
            put_weights(model, weights);
            bool const is_same = *steps == expected.steps && weights == expected.weights;
            return is_same ? Result<>{} : Error{ErrorCode::invalid_argument}.because("other bits");
        };
    };
    for (auto const zero : {ZeroStage::optimizer, ZeroStage::weights}) {
        for (auto const& outcome : shared_memory::run_ranks({body(zero, -1), body(zero, -1), body(zero, -1)})) {
            CAPTURE(outcome.message);
            CHECK(outcome.succeeded);
        }
        auto const died = shared_memory::run_ranks({body(zero, -1), body(zero, 1), body(zero, -1)});
        for (std::size_t const rank : {std::size_t{0}, std::size_t{2}}) {
            CAPTURE(died[rank].message);
            REQUIRE(died[rank].has_answered);
            CHECK(died[rank].code == ErrorCode::rank_lost);
            CHECK(died[rank].message.find("rank 1") != std::string::npos);
        }
    }
}
