// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/products.hpp>
#include <shardwise/executor/training/training_pass.hpp>

#include <doctest/doctest.h>

#include "../../train/golden_lines.hpp"
#include "../formula_model.hpp"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

/// Small models that torch has trained: scripts/golden/train_gradients.py.
namespace shardwise::testing {

/// What torch says of a parameter's gradient: its norm in float64, the norm of float32's error, and the products with directions.
struct GoldenGradient {
    std::string name;
    double norm = 0.0;
    double single_error = 0.0;
    std::vector<double> products;
};
struct GoldenTraining {
    std::string name;
    std::string config;
    double loss = 0.0;
    std::vector<GoldenGradient> gradients;
};

[[nodiscard]] inline std::vector<GoldenTraining> golden_trainings() {
    std::ifstream in(SHARDWISE_SOURCE_DIR "/tests/golden/train/gradients.txt");
    std::vector<GoldenTraining> out;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with('#')) continue;
        auto const bar = line.find(" | ");
        auto const head = line.substr(0, bar);
        auto const rest = line.substr(bar + 3);
        if (head == "case") {
            auto const second = rest.find(" | ");
            out.push_back({rest.substr(0, second), rest.substr(second + 3), 0.0, {}});
        } else if (head == "loss") {
            out.back().loss = number_of(rest);
        } else {
            std::istringstream words(rest);
            GoldenGradient one{head, 0.0, 0.0, {}};
            words >> one.norm >> one.single_error;
            for (double product = 0.0; words >> product;) one.products.push_back(product);
            out.back().gradients.push_back(std::move(one));
        }
    }
    return out;
}

inline constexpr std::int64_t golden_sequences = 3;
inline constexpr std::int64_t golden_context = 20;

/// The tokens of train_gradients.py.
[[nodiscard]] inline std::vector<std::int32_t> golden_tokens(std::int64_t count) {
    std::vector<std::int32_t> out;
    for (std::int64_t i = 0; i < count; ++i)
        out.push_back(static_cast<std::int32_t>((7 * i + i * i / 11 + i / 5 + 3) % 97));
    return out;
}
/// The batch of its gradients: tokens, and targets some of which have no loss.
struct GoldenBatch {
    std::vector<std::int32_t> tokens = golden_tokens(golden_sequences * golden_context);
    std::vector<std::int32_t> targets;
    std::int64_t counted = golden_sequences * golden_context - 8;

    GoldenBatch() {
        auto const all = golden_tokens(golden_sequences * golden_context + 1);
        targets.assign(all.begin() + 1, all.end());
        for (std::size_t i = 0; i < 5; ++i) targets[20 + i] = ignored_target;
        for (std::size_t i = 57; i < 60; ++i) targets[i] = ignored_target;
    }
};

/// A model of a formula, loaded to be trained.
struct TrainedModel {
    FormulaModel files;
    HostContext context;
    TrainingProgram program;
    TrainingWeights weights;

    explicit TrainedModel(std::string const& config, int threads = 1, TrainingPlace const& place = {},
                          WeightStorage const& storage = {})
        : files(config),
          context({.threads = threads}),
          program(take(TrainingProgram::create(model(), place))),
          weights(take(TrainingWeights::load(context, take(StoredParameters::open(files.source, model())), place, {}, 0,
                                             {}, storage))) {}

    [[nodiscard]] Model const& model() const { return files.checkpoint->model; }

    template <class T>
    [[nodiscard]] static T take(Result<T> made) {
        REQUIRE_MESSAGE(made, (made ? "" : made.error().message()));
        return std::move(*made);
    }
};

[[nodiscard]] inline Deadline soon() {
    return Deadline::after(std::chrono::seconds(60));
}

/// Each leaf's losses and gradients of the golden batch, a micro-batch of so many sequences at a time. With `is_split` the backward passes of
/// a micro-batch are in two parts, of which all that are first come first.
struct LeafResults {
    std::vector<std::vector<float>> losses;
    std::vector<std::vector<float>> gradients;

    friend bool operator==(LeafResults const&, LeafResults const&) = default;
};
[[nodiscard]] inline LeafResults train_leaves(TrainedModel& trained, std::int64_t micro_batch,
                                              Recompute recompute = Recompute::none, float dropout = 0.0F,
                                              HostCommunicator* ranks = nullptr, Dtype precision = Dtype::f32,
                                              float loss_scale = 1.0F, bool is_split = false) {
    GoldenBatch const batch;
    auto stream = trained.context.make_stream();
    auto pass = TrainedModel::take(TrainingPass::create(trained.context, trained.program,
                                                        {.sequences = micro_batch,
                                                         .context = golden_context,
                                                         .waiting = is_split ? 2 : 0,
                                                         .recompute = recompute,
                                                         .precision = precision},
                                                        {}, ranks));
    ChunkPass const at{.waiting = is_split ? 1 : 0};
    LeafResults out;
    for (std::int64_t first = 0; first < golden_sequences; first += micro_batch) {
        auto const count = std::min(micro_batch, golden_sequences - first);
        TensorView<std::int32_t const, 2, Host> const tokens(batch.tokens.data() + first * golden_context,
                                                             {count, golden_context});
        TrainingDropout draws{.rate = dropout, .seed = 5, .step = 3};
        for (std::int64_t i = 0; i < count; ++i) draws.sequences.push_back(static_cast<std::uint32_t>(first + i));
        auto const ran = pass.forward(trained.weights, tokens, stream, draws);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        auto const scale = loss_scale / static_cast<float>(batch.counted);
        auto const targets_of = [&](std::int64_t i) {
            return TensorView<std::int32_t const, 1, Host>(batch.targets.data() + (first + i) * golden_context,
                                                           {golden_context});
        };
        std::vector<float> first_losses(static_cast<std::size_t>(count * golden_context));
        for (std::int64_t i = 0; is_split && i < count; ++i) {
            auto const done =
                pass.backward_inputs(trained.weights, i, targets_of(i), scale,
                                     {first_losses.data() + i * golden_context, {golden_context}}, stream, at);
            REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
        }
        for (std::int64_t i = 0; i < count; ++i) {
            std::vector<float> losses(static_cast<std::size_t>(golden_context));
            std::vector<float> gradients(static_cast<std::size_t>(trained.program.layout().gradient_elements()), 7.0F);
            TensorView<float, 1, Host> const loss(losses.data(), {golden_context});
            TensorView<float, 1, Host> const to(gradients.data(), {static_cast<std::int64_t>(gradients.size())});
            auto const done =
                is_split ? pass.backward_parameters(trained.weights, i, targets_of(i), scale, loss, to, stream, at)
                         : pass.backward(trained.weights, i, targets_of(i), scale, loss, to, stream);
            REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
            auto const ended = stream.synchronize(soon());
            REQUIRE_MESSAGE(ended, (ended ? "" : ended.error().message()));
            if (is_split) CHECK(std::equal(losses.begin(), losses.end(), first_losses.begin() + i * golden_context));
            out.losses.push_back(std::move(losses));
            out.gradients.push_back(std::move(gradients));
        }
    }
    return out;
}

}  // namespace shardwise::testing
