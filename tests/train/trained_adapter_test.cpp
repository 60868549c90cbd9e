// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/adapter.hpp>
#include <shardwise/train/checkpoint/checkpoint_reader.hpp>
#include <shardwise/train/checkpoint/save_checkpoint.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"
#include "pair_sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

struct GoldenStep {
    double loss = 0.0;
    double norm = 0.0;
    double spread = 0.0;
};
/// scripts/golden/train_adapters.py: what PEFT trains.
struct GoldenAdapter {
    std::string name;
    std::string config;
    LowRankOptions options;
    std::vector<GoldenStep> steps;
};
std::vector<GoldenAdapter> golden() {
    std::ifstream in(SHARDWISE_SOURCE_DIR "/tests/golden/train/adapters.txt");
    std::vector<GoldenAdapter> out;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with('#')) continue;
        std::istringstream words(line);
        if (!line.starts_with("case | ")) {
            auto& step = out.back().steps.emplace_back();
            words >> step.loss >> step.norm >> step.spread;
            continue;
        }
        auto const name = line.find(" | ") + 3;
        auto const config = line.find(" | ", name) + 3;
        auto const options = line.find(" | ", config) + 3;
        auto& one = out.emplace_back();
        one.name = line.substr(name, config - 3 - name);
        one.config = line.substr(config, options - 3 - config);
        std::istringstream rest(line.substr(options));
        rest >> one.options.rank >> one.options.alpha;
        for (std::string target; rest >> target;) one.options.targets.push_back(target);
    }
    return out;
}

template <class T>
T take(Result<T> made) {
    return TrainedModel::take(std::move(made));
}

/// A model of a formula with an adapter of a formula.
struct AdaptedModel {
    FormulaModel files;
    HostContext context;
    TrainingProgram program;
    TrainingWeights weights;

    AdaptedModel(std::string const& config, LowRankOptions const& options, int threads = 1, bool is_formula = true)
        : files(config),
          context({.threads = threads}),
          program(take(TrainingProgram::create(model(), {}, options))),
          weights(take(TrainingWeights::load(context, take(StoredParameters::open(files.source, model())), {},
                                             program.layout().adapter(), 7))) {
        auto const& parameters = program.layout().parameters();
        for (std::size_t i = 0; is_formula && i < parameters.size(); ++i) {
            auto const values = formula(parameters[i].name, parameters[i].tensor->shape);
            std::copy(values.begin(), values.end(), weights.values(i).data());
        }
    }
    [[nodiscard]] Model const& model() const { return files.checkpoint->model; }
    [[nodiscard]] std::vector<float> all() const {
        return {weights.data(), weights.data() + program.layout().weight_elements()};
    }
};

TrainOptions options_of(std::int64_t steps, std::int64_t micro_batch = 2, ZeroStage zero = ZeroStage::none) {
    TrainOptions out{.steps = steps,
                     .micro_batch = micro_batch,
                     .schedule = {.learning_rate = 3e-3, .warm_up = 2, .total = curve_steps, .floor = 0.1}};
    out.zero = zero;
    return out;
}

/// What loads a rank's weights, its part of an adapter among them. `single` and `options` outlive it.
auto loads_weights(AdaptedModel const& single, LowRankOptions const& options) {
    return [&single, &options](HostContext& own, TrainingPlace const& place) {
        auto const stored = take(StoredParameters::open(single.files.source, single.model()));
        auto const adapter = take(TrainedAdapter::create(single.model(), options));
        return TrainingWeights::load(own, stored, place, adapter, 7);
    };
}

std::vector<TrainedStep> train(AdaptedModel& model, TrainOptions const& options, std::int32_t ranks = 1) {
    CurveData const data;
    return take(train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options, ranks));
}

}  // namespace

TEST_CASE("train_ranks: adapters have PEFT's losses and norms, and the base stays as it is") {
    auto const all = golden();
    REQUIRE(all.size() == 8);
    for (auto const& one : all) {
        CAPTURE(one.name);
        AdaptedModel model(one.config, one.options);
        auto const before = model.all();
        auto const count = sampled_count(one.steps.size(), std::size_t{6});
        auto const steps = train(model, options_of(static_cast<std::int64_t>(count)));
        double most = 0.0;
        for (std::size_t i = 0; i < count; ++i) {
            CAPTURE(i);
            most = std::max(most, std::abs(steps[i].loss - one.steps[i].loss));
            CHECK(most <= 4.0 * one.steps[i].spread + 1e-6);
            CHECK(steps[i].norm == doctest::Approx(one.steps[i].norm).epsilon(2e-5));
        }
        auto const first = model.program.layout().gradient_elements();
        auto const after = model.all();
        CHECK(std::equal(before.begin() + first, before.end(), after.begin() + first));
        CHECK_FALSE(std::equal(before.begin(), before.begin() + first, after.begin()));
    }
}

TEST_CASE(
    "train_ranks: an adapter has the same bits on any ranks, ZeRO stages, micro-batches, threads, recomputed or not") {
    auto const one = golden()[1];
    AdaptedModel model(one.config, one.options);
    auto const steps = train(model, options_of(5, 1));
    auto const bits = model.all();
    struct Way {
        std::int32_t ranks;
        ZeroStage zero;
        std::int64_t micro_batch;
        int threads;
        Recompute recompute;
    };
    for (auto const& way :
         {Way{2, ZeroStage::none, 2, 2, Recompute::none}, Way{3, ZeroStage::optimizer, 1, 1, Recompute::full},
          Way{4, ZeroStage::gradients, 1, 1, Recompute::selective}}) {
        CAPTURE(way.ranks);
        AdaptedModel other(one.config, one.options, way.threads);
        auto options = options_of(5, way.micro_batch, way.zero);
        options.recompute = way.recompute;
        CHECK(train(other, options, way.ranks) == steps);
        CHECK(other.all() == bits);
    }
}

TEST_CASE(
    "train_ranks: tensor-parallel ranks and stages train an adapter with the bits of one, in the predicted memory and "
    "traffic") {
    CurveData const data;
    for (auto const& one : golden()) {
        CAPTURE(one.name);
        AdaptedModel single(one.config, one.options, 1, false);
        std::int64_t const count = sampled_count(4, 2);
        auto const expected = train(single, options_of(count));
        struct Way {
            std::int32_t ranks;
            ZeroStage zero;
            Recompute recompute;
            std::int32_t tp = 1;
            std::int32_t pp = 1;
            PipelineKind pipeline = PipelineKind::one_forward_one_backward;
        };
        for (auto const& way :
             {Way{2, ZeroStage::none, Recompute::none, 2}, Way{4, ZeroStage::optimizer, Recompute::full, 2},
              Way{2, ZeroStage::none, Recompute::none, 1, 2, PipelineKind::zero_bubble},
              Way{8, ZeroStage::gradients, Recompute::selective, 2, 2, PipelineKind::zero_bubble},
              Way{4, ZeroStage::optimizer, Recompute::none, 1, 2}}) {
            if (way.ranks > 2 && one.name != "llama_all") continue;
            CAPTURE(way.ranks);
            CAPTURE(way.pp);
            auto options = options_of(count, 2, way.zero);
            options.tp = way.tp;
            options.pp = way.pp;
            options.pipeline = way.pipeline;
            options.recompute = way.recompute;
            auto const weights = loads_weights(single, one.options);
            std::vector<TrainedStep> got;
            auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
                auto const& layout = trainer.weights().layout();
                TensorPlace const place{trainer.comm().size(), trainer.comm().rank()};
                auto const own = TrainingProgram::create(single.model(), layout.place(), one.options);
                if (!own) return own.error();
                auto const predicted =
                    Trainer<AdamW>::bytes(*own, AdamW{}, trainer.batches().options(), options, place);
                if (!predicted) return predicted.error();
                CHECK(trainer.context().memory().current() == TrainingWeights::bytes(layout) + *predicted);
                auto const before = trainer.traffic().total();
                auto steps = trainer.run(stream);
                if (!steps) return steps.error();
                auto traffic = before;
                for (std::size_t i = 0; i < steps->size(); ++i)
                    traffic += Trainer<AdamW>::traffic(*own, trainer.batches().options(), options, place);
                // Asking whether steps are left.
                CHECK(trainer.traffic().total().bytes == traffic.bytes);
                if (trainer.comm().rank() == 0) got = *std::move(steps);
                return {};
            };
            HostContext context({.threads = 1});
            auto const done =
                train_ranks(context, single.model(), weights, AdamW{}, data.batches(), options, way.ranks, body);
            REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
            CHECK(got == expected);
        }
    }
}

TEST_CASE(
    "train_ranks: dropout of an adapter's input leaves the same elements on any ranks, stages, micro-batches, threads, "
    "recomputed or not, in the predicted memory") {
    CurveData const data;
    for (auto const number : {std::size_t{1}, std::size_t{2}, std::size_t{6}}) {
        auto one = golden()[number];
        CAPTURE(one.name);
        AdaptedModel plain(one.config, one.options);
        auto const without = train(plain, options_of(3));
        one.options.dropout = 0.25;
        AdaptedModel formula(one.config, one.options);
        CHECK_FALSE(train(formula, options_of(3)).front() == without.front());
        AdaptedModel single(one.config, one.options, 1, false);
        auto const expected = train(single, options_of(3, 1));
        struct Way {
            std::int32_t ranks;
            Recompute recompute = Recompute::none;
            std::int32_t tp = 1;
            std::int32_t pp = 1;
            ZeroStage zero = ZeroStage::none;
        };
        for (auto const& way : {Way{3, Recompute::full}, Way{2, Recompute::none, 2}, Way{2, Recompute::selective, 1, 2},
                                Way{4, Recompute::full, 2, 1, ZeroStage::optimizer}}) {
            if (way.ranks > 2 && number != 1) continue;
            CAPTURE(way.ranks);
            CAPTURE(way.tp);
            auto options = options_of(3, 2, way.zero);
            options.tp = way.tp;
            options.pp = way.pp;
            options.recompute = way.recompute;
            auto const weights = loads_weights(single, one.options);
            std::vector<TrainedStep> got;
            auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
                auto const& layout = trainer.weights().layout();
                TensorPlace const place{trainer.comm().size(), trainer.comm().rank()};
                auto const own = take(TrainingProgram::create(single.model(), layout.place(), one.options));
                auto const predicted =
                    take(Trainer<AdamW>::bytes(own, AdamW{}, trainer.batches().options(), options, place));
                CHECK(trainer.context().memory().current() == TrainingWeights::bytes(layout) + predicted);
                auto steps = trainer.run(stream);
                if (!steps) return steps.error();
                CHECK(trainer.context().memory().peak() == TrainingWeights::bytes(layout) + predicted);
                if (trainer.comm().rank() == 0) got = *std::move(steps);
                return {};
            };
            HostContext context({.threads = way.recompute == Recompute::full ? 2 : 1});
            auto const done =
                train_ranks(context, single.model(), weights, AdamW{}, data.batches(), options, way.ranks, body);
            REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
            CHECK(got == expected);
        }
    }
}

TEST_CASE("TrainingPass: with dropout of an adapter's input, gradients are those of the loss of what it leaves") {
    for (auto const number : {std::size_t{1}, std::size_t{2}}) {
        auto one = golden()[number];
        CAPTURE(one.name);
        auto const losses_of = [&](LowRankOptions const& options, std::size_t half, std::int64_t at, double by,
                                   std::vector<double>& gradients, bool is_training = true) {
            AdaptedModel model(one.config, options);
            auto values = model.weights.values(half);
            values.data()[at] = static_cast<float>(static_cast<double>(values.data()[at]) + by);
            constexpr std::int64_t length = 12;
            auto pass = take(TrainingPass::create(model.context, model.program, {.sequences = 1, .context = length}));
            std::vector<std::int32_t> ids;
            for (std::int32_t i = 0; i <= length; ++i) ids.push_back((i * i * 7 + 3 * i + 1) % 89);
            auto stream = model.context.make_stream();
            TrainingDropout draws{.seed = 5, .step = 3};
            if (is_training) draws.sequences.push_back(4);
            REQUIRE(pass.forward(model.weights, {ids.data(), {1, length}}, stream, draws));
            std::vector<float> losses(static_cast<std::size_t>(length));
            std::vector<float> own(static_cast<std::size_t>(model.program.layout().gradient_elements()));
            auto const done =
                pass.backward(model.weights, 0, {ids.data() + 1, {length}}, 1.0F / length, {losses.data(), {length}},
                              {own.data(), {static_cast<std::int64_t>(own.size())}}, stream);
            REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
            REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
            gradients.assign(own.begin(), own.end());
            double sum = 0.0;
            for (auto const loss : losses) sum += static_cast<double>(loss);
            return sum / static_cast<double>(length);
        };
        auto options = one.options;
        options.dropout = 0.4;
        AdaptedModel const model(one.config, options);
        std::vector<double> gradients;
        std::vector<double> ignored;
        auto const plain = losses_of(one.options, 0, 0, 0.0, ignored);
        CHECK(losses_of(options, 0, 0, 0.0, ignored, false) == plain);
        CHECK(losses_of(options, 0, 0, 0.0, gradients) != plain);
        auto const& parameters = model.program.layout().parameters();
        for (std::size_t half = 0; half < parameters.size(); ++half) {
            CAPTURE(parameters[half].name);
            auto const* const own = gradients.data() + parameters[half].begin;
            auto const* const largest = std::max_element(own, own + parameters[half].elements,
                                                         [](double a, double b) { return std::abs(a) < std::abs(b); });
            auto const step = std::min(0.02, 0.002 / std::abs(*largest));
            auto const slope = (losses_of(options, half, largest - own, step, ignored) -
                                losses_of(options, half, largest - own, -step, ignored)) /
                               (2.0 * step);
            CHECK(std::abs(slope - *largest) <= 0.03 * std::abs(*largest) + 1e-4);
        }
    }
}

TEST_CASE("Trainer: memory for an adapter is what is predicted, without gradients and state of the base") {
    auto const one = golden()[0];
    AdaptedModel model(one.config, one.options);
    auto const& layout = model.program.layout();
    CHECK(model.context.memory().current() == TrainingWeights::bytes(layout));
    CHECK(layout.frozen().size() == 3 + 9 * 2);
    CHECK(layout.parameters().size() == 2 * 2 * 2);
    CHECK(layout.gradient_elements() < layout.weight_elements() / 8);
    CurveData const data;
    auto batches = data.batches();
    auto const options = options_of(3);
    HostCommunicator comm(std::move(*ThreadsGroup::create(1)->join(0)));
    auto const before = model.context.memory().current();
    auto trainer = Trainer<AdamW>::create(model.context, comm, model.program, model.weights, AdamW{}, batches, options);
    REQUIRE(trainer);
    auto const predicted = take(Trainer<AdamW>::bytes(model.program, AdamW{}, batches.options(), options));
    CHECK(model.context.memory().current() - before == predicted);
    auto stream = model.context.make_stream();
    REQUIRE(trainer->run(stream));
    CHECK(model.context.memory().peak() - before == predicted);
    // The whole model needs more than twice as much beside its weights.
    auto const whole = take(TrainingProgram::create(model.model()));
    auto const all = take(Trainer<AdamW>::bytes(whole, AdamW{}, batches.options(), options));
    CHECK(predicted.count() * 2 < all.count());
}

TEST_CASE(
    "save_checkpoint: of an adapter it is PEFT's file, which loads into the model, and into another run with the same "
    "bits") {
    auto const one = golden()[2];
    CurveData const data;
    TemporaryFolder const out;
    auto const files =
        CheckpointFiles{{{std::string(Adapter::config_file),
                          R"({"peft_type":"LORA","r":4,"lora_alpha":8,"target_modules":["c_attn","mlp.c_proj"]})"}}};
    AdaptedModel model(one.config, one.options, 1, false);
    // A is uniform as far as 1 / sqrt(inputs), B zeros.
    auto const a = model.weights.values(0);
    auto const greatest = std::abs(*std::max_element(a.data(), a.data() + a.elements()));
    CHECK(greatest <= 1.0F / 6.0F);
    CHECK(greatest > 0.9F / 6.0F);
    CHECK(*std::max_element(model.weights.values(1).data(), model.weights.values(1).data() + 4) == 0.0F);
    auto const layout = take(CheckpointLayout::create(model.model(), AdamW{}, CheckpointLayout::shard_bytes,
                                                      model.program.layout().adapter()));
    CHECK(layout.files().front().file() == "adapter_model.safetensors");
    CheckpointTarget const target{.out = out.path(), .layout = &layout, .files = &files};
    HostCommunicator comm(std::move(*ThreadsGroup::create(1)->join(0)));
    auto trainer = take(Trainer<AdamW>::create(model.context, comm, model.program, model.weights, AdamW{},
                                               data.batches(), options_of(6)));
    auto stream = model.context.make_stream();
    for (int i = 0; i < 3; ++i) REQUIRE(trainer.step(stream));
    TrainerState state;
    state.step = state.updates = 3;
    auto const saved = save_checkpoint(comm, target, state, model.weights, trainer.optimizer());
    REQUIRE_MESSAGE(saved, (saved ? "" : saved.error().message()));
    auto const folder = out / "step-000003";
    REQUIRE(verify_checkpoint(folder, layout));
    auto const adapter = Adapter::open(folder, model.model());
    REQUIRE_MESSAGE(adapter, (adapter ? "" : adapter.error().message()));
    CHECK(adapter->size() == 4);
    auto const half = adapter->delta("transformer.h.1.mlp.c_proj.weight");
    REQUIRE(half != nullptr);
    CHECK(half->left.outputs == 36);
    CHECK(half->right.inputs == 144);
    for (int i = 0; i < 3; ++i) REQUIRE(trainer.step(stream));
    AdaptedModel other(one.config, one.options, 1, false);
    auto resumed = take(Trainer<AdamW>::create(other.context, comm, other.program, other.weights, AdamW{},
                                               data.batches(), options_of(6)));
    REQUIRE(load_checkpoint(folder, layout, other.weights, resumed.optimizer()));
    TrainerPosition position;
    position.step = 3;
    REQUIRE(resumed.restore(position));
    auto later = other.context.make_stream();
    for (int i = 0; i < 3; ++i) REQUIRE(resumed.step(later));
    CHECK(other.all() == model.all());
}

TEST_CASE("TrainingProgram: what has no adapter is refused by name") {
    FormulaModel const llama(golden()[0].config);
    auto const says = [&](LowRankOptions const& options, TensorPlace const& place = {}) {
        auto const made = TrainingProgram::create(llama.checkpoint->model, place, options);
        return made ? std::string("made") : made.error().message();
    };
    CHECK(says({.rank = 2}) == "made");
    CHECK(says({.rank = 2, .targets = {"q_projj"}}) ==
          "low-rank adapter: q_projj: is no module of the model; did you mean q_proj?");
    CHECK(says({.rank = 2, .targets = {"lm_head"}}).find("is the head") != std::string::npos);
    CHECK(says({.rank = 2, .targets = {"embed_tokens"}}).find("is no product") != std::string::npos);
    CHECK(says({.rank = 2, .targets = {"layers.0.self_attn.q_proj"}}).find("in some layers alone") !=
          std::string::npos);
    CHECK(says({.rank = -1}).find("rank") != std::string::npos);
    CHECK(says({.rank = 2, .dropout = 1.0}).find("dropout: must be at least 0 and below 1") != std::string::npos);
    CHECK(says({.rank = 2, .alpha = 0.0}).find("alpha") != std::string::npos);
    CHECK(says({.rank = 1}, {2, 0}).find("below the tensor-parallel ranks") != std::string::npos);
}
