// SPDX-License-Identifier: Apache-2.0
#include "memory_player.hpp"
#include "training_cases.hpp"

#include <algorithm>
#include <cmath>
#include <map>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

[[nodiscard]] std::map<OpKind, int> kinds_again(BackwardBody const& body, Recompute what) {
    std::map<OpKind, int> out;
    for (auto const& again : plan_recomputation(body, what).again)
        ++out[body.forward.operations()[again.operation].kind];
    return out;
}
[[nodiscard]] std::string config_of(std::string const& name) {
    for (auto const& golden : golden_trainings()) {
        if (golden.name == name) return golden.config;
    }
    return {};
}

}  // namespace

TEST_CASE("TrainingPass: loss and gradients of every family are torch's") {
    for (auto const& golden : golden_trainings()) {
        CAPTURE(golden.name);
        TrainedModel trained(golden.config);
        auto const& layout = trained.program.layout();
        auto const leaves = train_leaves(trained, 2);
        double loss = 0.0;
        std::vector<double> sums(static_cast<std::size_t>(layout.gradient_elements()));
        for (std::size_t leaf = 0; leaf < leaves.gradients.size(); ++leaf) {
            for (auto const one : leaves.losses[leaf]) loss += static_cast<double>(one);
            for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(leaves.gradients[leaf][i]);
        }
        for (auto const& tie : layout.ties()) {
            auto const& parameter = layout.parameters()[tie.parameter];
            for (std::int64_t i = 0; i < parameter.elements; ++i)
                sums[static_cast<std::size_t>(parameter.begin + i)] += sums[static_cast<std::size_t>(tie.begin + i)];
        }
        CHECK(loss / 52.0 == doctest::Approx(golden.loss).epsilon(2e-6));
        CHECK(golden.gradients.size() == layout.parameters().size());
        for (auto const& expected : golden.gradients) {
            CAPTURE(expected.name);
            auto const number = layout.find(expected.name);
            REQUIRE(number);
            auto const& parameter = layout.parameters()[number->parameter];
            auto const* const own = sums.data() + parameter.begin;
            // An error of the size of float32's own, in any direction: by the rules of a sum of independent ones its product with a
            // direction has the error's norm times the root mean square of the direction; twice, and three deviations.
            auto const error = 2.0 * std::max(expected.single_error, expected.norm * 0x1p-24);
            double squares = 0.0;
            for (std::int64_t i = 0; i < parameter.elements; ++i) squares += own[i] * own[i];
            CHECK(std::abs(std::sqrt(squares) - expected.norm) <= error);
            for (std::size_t k = 0; k < expected.products.size(); ++k) {
                auto const direction = formula(std::to_string(k) + ":" + expected.name, Shape{1, parameter.elements});
                double product = 0.0;
                double length = 0.0;
                for (std::int64_t i = 0; i < parameter.elements; ++i) {
                    auto const along = static_cast<double>(direction[static_cast<std::size_t>(i)]);
                    product += own[i] * along;
                    length += along * along;
                }
                auto const root_mean_square = std::sqrt(length / static_cast<double>(parameter.elements));
                CHECK(std::abs(product - expected.products[k]) <= 3.0 * error * root_mean_square);
            }
        }
    }
}

TEST_CASE("TrainingPass: a leaf has the same bits with any threads and in any micro-batch") {
    auto const cases = golden_trainings();
    for (std::size_t const which : {std::size_t{0}, std::size_t{7}, std::size_t{13}}) {
        CAPTURE(cases[which].name);
        TrainedModel one(cases[which].config, 1);
        auto const expected = train_leaves(one, 1);
        for (auto const micro_batch : {2, 3}) CHECK(train_leaves(one, micro_batch) == expected);
        for (int const threads : {2, 3}) {
            TrainedModel more(cases[which].config, threads);
            CHECK(train_leaves(more, threads) == expected);
        }
    }
}

TEST_CASE("TrainingPass: what is computed again changes no bit, for every family") {
    for (auto const& golden : golden_trainings()) {
        CAPTURE(golden.name);
        TrainedModel trained(golden.config, 2);
        auto const expected = train_leaves(trained, 2);
        for (auto const recompute : {Recompute::selective, Recompute::full}) {
            for (std::int64_t const micro_batch : {1, 2})
                CHECK(train_leaves(trained, micro_batch, recompute) == expected);
        }
    }
}

TEST_CASE("TrainingPass: backward passes in two parts give the bits of one, for every family") {
    for (auto const& golden : golden_trainings()) {
        CAPTURE(golden.name);
        TrainedModel trained(golden.config, 2);
        auto const split = [&](std::int64_t micro_batch, Recompute recompute, Dtype precision) {
            return train_leaves(trained, micro_batch, recompute, 0.25F, nullptr, precision, 1.0F, true);
        };
        for (auto const precision : {Dtype::f32, Dtype::bf16}) {
            auto const expected = train_leaves(trained, 2, Recompute::none, 0.25F, nullptr, precision);
            CHECK(split(2, Recompute::none, precision) == expected);
            CHECK(split(3, Recompute::selective, precision) == expected);
            CHECK(split(1, Recompute::full, precision) == expected);
        }
    }
}

TEST_CASE(
    "TrainingPass: dropout leaves the same elements in any micro-batch, on any threads and where they are computed "
    "again") {
    for (auto const* const name : {"llama", "gpt2", "gemma2", "falcon_groups"}) {
        CAPTURE(name);
        TrainedModel trained(config_of(name));
        auto const expected = train_leaves(trained, 1, Recompute::none, 0.25F);
        CHECK_FALSE(expected == train_leaves(trained, 1));
        CHECK(train_leaves(trained, 3, Recompute::none, 0.25F) == expected);
        TrainedModel more(config_of(name), 3);
        CHECK(train_leaves(more, 2, Recompute::selective, 0.25F) == expected);
        CHECK(train_leaves(more, 3, Recompute::full, 0.25F) == expected);
    }
}

TEST_CASE("TrainingPass: with dropout, gradients are those of the loss of what it leaves") {
    for (auto const* const name : {"llama", "gpt2", "falcon_groups"}) {
        CAPTURE(name);
        TrainedModel trained(config_of(name));
        auto const& layout = trained.program.layout();
        auto const train = [&] { return train_leaves(trained, 3, Recompute::none, 0.25F); };
        std::vector<double> gradient(static_cast<std::size_t>(layout.gradient_elements()));
        for (auto const& leaf : train().gradients) {
            for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += static_cast<double>(leaf[i]);
        }
        for (auto const& tie : layout.ties()) {
            auto const begin = static_cast<std::size_t>(layout.parameters()[tie.parameter].begin);
            auto const elements = static_cast<std::size_t>(layout.parameters()[tie.parameter].elements);
            for (std::size_t i = 0; i < elements; ++i)
                gradient[begin + i] += gradient[static_cast<std::size_t>(tie.begin) + i];
        }
        for (std::size_t number = 0; number < layout.parameters().size(); ++number) {
            CAPTURE(layout.parameters()[number].name);
            auto const values = trained.weights.values(number);
            auto const* const own = gradient.data() + layout.parameters()[number].begin;
            auto const* const largest = std::max_element(own, own + values.elements(),
                                                         [](double a, double b) { return std::abs(a) < std::abs(b); });
            auto& weight = values.data()[largest - own];
            // The loss changes by 0.002 either way, of which float32 loses some 1e-6; a step of 0.02 is short enough for a weight.
            auto const step = std::min(0.02, 0.002 / std::abs(*largest));
            auto const loss_at = [&, before = weight](double by) {
                weight = static_cast<float>(static_cast<double>(before) + by);
                double sum = 0.0;
                for (auto const& losses : train().losses) {
                    for (auto const one : losses) sum += static_cast<double>(one);
                }
                weight = before;
                return sum / 52.0;
            };
            auto const slope = (loss_at(step) - loss_at(-step)) / (2.0 * step);
            CHECK(std::abs(slope - *largest) <= 0.03 * std::abs(*largest) + 1e-4);
        }
    }
}

TEST_CASE("dropped_inputs: what attention and feed-forward add to the hidden state, in every family") {
    for (auto const& golden : golden_trainings()) {
        CAPTURE(golden.name);
        TrainedModel const trained(golden.config);
        for (auto const& block : trained.program.blocks()) {
            std::size_t dropped = 0;
            for (auto const& one : trained.program.dropped(block)) dropped += one.purpose > 0 ? 1 : 0;
            bool const has_attention = !trained.program.body(block).log_sums.empty();
            CHECK(dropped == (has_attention ? 2 : 0));
        }
    }
}

TEST_CASE("TrainingPass: what is planned is allocated") {
    for (auto const& golden : golden_trainings()) {
        CAPTURE(golden.name);
        TrainedModel trained(golden.config);
        CHECK(trained.context.memory().current().count() == 4 * trained.program.layout().weight_elements());
        for (auto const& [sequences, precision] :
             {std::pair{1, Dtype::f32}, std::pair{4, Dtype::f32}, std::pair{4, Dtype::bf16}}) {
            Bytes larger{std::int64_t{1} << 40U};
            for (auto const recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
                TrainingLimits const limits{
                    .sequences = sequences, .context = 33, .recompute = recompute, .precision = precision};
                auto const before = trained.context.memory().current();
                auto const pass = TrainingPass::create(trained.context, trained.program, limits);
                REQUIRE(pass);
                auto const plan = plan_training_memory(trained.program, limits);
                REQUIRE(plan);
                CHECK(plan->bytes() == pass->bytes());
                CHECK(trained.context.memory().current() - before == plan->bytes());
                if (sequences > 1) CHECK(plan->bytes() < larger);
                larger = plan->bytes();
            }
        }
    }
}

TEST_CASE(
    "plan_body_memory: every value is read where it was written last, for every family, whatever is computed again") {
    for (auto const& golden : golden_trainings()) {
        CAPTURE(golden.name);
        TrainedModel const trained(golden.config);
        for (auto const& body : trained.program.bodies()) {
            for (auto const what : {Recompute::none, Recompute::selective, Recompute::full}) {
                MemoryPlayer(body, {.all = 9, .forward = what == Recompute::none ? 9 : 3, .backward = 3}, what).play();
                MemoryPlayer(body, {.all = 9, .forward = 3, .backward = 3}, what, rounded_values(body)).play();
                MemoryPlayer(body, {.all = 9, .forward = 3, .backward = 3}, what, {}, true).play();
                MemoryPlayer(body, {.all = 9, .forward = 3, .backward = 3}, what, rounded_values(body), true).play();
            }
        }
    }
}

TEST_CASE(
    "plan_recomputation: full keeps nothing, selective takes no product twice and keeps some of what none keeps") {
    for (auto const& golden : golden_trainings()) {
        CAPTURE(golden.name);
        TrainedModel const trained(golden.config);
        for (auto const& body : trained.program.bodies()) {
            auto const none = plan_recomputation(body, Recompute::none);
            CHECK(none.again.empty());
            auto const full = plan_recomputation(body, Recompute::full);
            auto const selective = plan_recomputation(body, Recompute::selective);
            for (std::size_t i = 0; i < body.values.size(); ++i) {
                CHECK(full.is_kept[i] == 0);
                CHECK(selective.is_kept[i] <= none.is_kept[i]);
            }
            for (auto const& [kind, count] : kinds_again(body, Recompute::selective))
                CHECK((kind != OpKind::linear && kind != OpKind::attention));
        }
    }
}

TEST_CASE("plan_recomputation: of a llama's layer, two norms and the activation, or all but what makes its output") {
    TrainedModel const trained(config_of("llama"));
    auto const& body = trained.program.bodies()[1];
    CHECK(kinds_again(body, Recompute::selective) == std::map<OpKind, int>{{OpKind::norm, 2}, {OpKind::activation, 1}});
    CHECK(kinds_again(body, Recompute::full) == std::map<OpKind, int>{{OpKind::norm, 2},
                                                                      {OpKind::linear, 6},
                                                                      {OpKind::rope, 2},
                                                                      {OpKind::attention, 1},
                                                                      {OpKind::add, 1},
                                                                      {OpKind::activation, 1}});
    // gemma2 norms what its products made before it is added: that sum follows from what is kept.
    TrainedModel const gemma(config_of("gemma2"));
    CHECK(kinds_again(gemma.program.bodies()[1], Recompute::selective)[OpKind::add] == 1);
}

TEST_CASE("TrainingProgram: what has no gradient is refused by name, without any weights") {
    auto const message = [](std::string const& name) {
        ModelSource source;
        source.kind = SourceKind::config;
        source.config = SHARDWISE_SOURCE_DIR "/tests/golden/configs/" + name + ".json";
        auto const read = read_checkpoint(source);
        REQUIRE(read);
        auto const made = TrainingProgram::create(read->model);
        return made ? std::string() : made.error().message();
    };
    CHECK(message("small-llama").empty());
    CHECK(message("small-mixtral").find("routed experts have no gradient yet") != std::string::npos);
    CHECK(message("small-deepseek_v2").find("MLA") != std::string::npos);
    CHECK(message("small-nemotron").find("layer norm with an offset") != std::string::npos);
    CHECK(message("small-bert-mlm").find("both directions") != std::string::npos);
    CHECK(message("small-llama-mha-model").find("no head") != std::string::npos);
}

TEST_CASE("TrainingPass: ids, targets and sequences that are not of the model or the pass are refused") {
    TrainedModel trained(golden_trainings()[0].config);
    auto stream = trained.context.make_stream();
    auto pass =
        TrainedModel::take(TrainingPass::create(trained.context, trained.program, {.sequences = 1, .context = 4}));
    std::vector<std::int32_t> ids{1, 2, 97, 3};
    auto const run = [&] { return pass.forward(trained.weights, {ids.data(), {1, 4}}, stream); };
    CHECK(run().error().message().find("none of the vocabulary") != std::string::npos);
    ids[2] = 5;
    REQUIRE(run());
    std::vector<float> losses(4);
    TensorView<float, 1, Host> const to(losses.data(), {4});
    CHECK_FALSE(pass.losses(trained.weights, 1, {ids.data(), {4}}, to, stream));
    CHECK_FALSE(pass.losses(trained.weights, 0, {ids.data(), {3}}, to, stream));
    CHECK(pass.losses(trained.weights, 0, {ids.data(), {4}}, to, stream));
    CHECK(stream.synchronize(soon()));
    CHECK(losses[0] > 0.0F);
    CHECK_FALSE(pass.forward(trained.weights, {ids.data(), {1, 4}}, stream, {.rate = 1.0F}));
    CHECK(pass.forward(trained.weights, {ids.data(), {1, 4}}, stream, {.rate = 0.5F}).error().message() ==
          "training: dropout: needs the number of each sequence in the global batch (got 0, expected 1)");
    CHECK_FALSE(TrainingPass::create(trained.context, trained.program, {.sequences = 1, .context = 257}));
    CHECK_FALSE(TrainingPass::create(trained.context, trained.program, {.sequences = 0, .context = 4}));
}

TEST_CASE("TrainingWeights: a seed gives normal numbers of the deviation asked for, and other seeds and names others") {
    TrainedModel const trained(golden_trainings()[0].config);
    HostContext context({.threads = 1});
    auto const make = [&](std::uint64_t seed) {
        return TrainedModel::take(
            TrainingWeights::initialise(context, trained.model(), {.seed = seed, .deviation = 0.05}));
    };
    auto const weights = make(3);
    auto const again = make(3);
    auto const other = make(4);
    auto const number = [&](std::string const& name) { return weights.layout().find(name)->parameter; };
    auto const table = weights.values(number("model.embed_tokens.weight"));
    auto const head = weights.values(number("lm_head.weight"));
    double sum = 0.0;
    double squares = 0.0;
    for (std::int64_t i = 0; i < table.elements(); ++i) {
        auto const value = static_cast<double>(table.data()[i]);
        sum += value;
        squares += value * value;
    }
    auto const count = static_cast<double>(table.elements());
    // Four deviations of a mean and of a mean square of so many.
    CHECK(std::abs(sum / count) < 4.0 * 0.05 / std::sqrt(count));
    CHECK(std::abs(squares / count / 0.0025 - 1.0) < 4.0 * std::sqrt(2.0 / count));
    CHECK(std::equal(table.data(), table.data() + table.elements(),
                     again.values(number("model.embed_tokens.weight")).data()));
    CHECK(table.data()[0] != other.values(number("model.embed_tokens.weight")).data()[0]);
    CHECK(table.data()[0] != head.data()[0]);
    CHECK(weights.values(number("model.norm.weight")).data()[0] == 1.0F);
    CHECK_FALSE(TrainingWeights::initialise(context, trained.model(), {.seed = 0, .deviation = 0.0}));
}
