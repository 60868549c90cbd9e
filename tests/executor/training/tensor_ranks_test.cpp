// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>

#include "training_cases.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// What this rank should have of all gradients, by those of one rank.
std::vector<float> part_of(std::vector<float> const& whole, TrainingLayout const& all, TrainingLayout const& own) {
    std::vector<float> out(static_cast<std::size_t>(own.gradient_elements()));
    auto const copy = [&](TrainingParameter const& parameter, std::int64_t from, std::int64_t to) {
        parameter.for_each_run({0, parameter.elements}, [&](std::int64_t at, std::int64_t mine, std::int64_t count) {
            std::copy_n(whole.data() + from + at, count, out.data() + to + mine);
        });
    };
    for (std::size_t i = 0; i < own.parameters().size(); ++i)
        copy(own.parameters()[i], all.parameters()[i].begin, own.parameters()[i].begin);
    for (std::size_t i = 0; i < own.ties().size(); ++i)
        copy(own.parameters()[own.ties()[i].parameter], all.ties()[i].begin, own.ties()[i].begin);
    return out;
}

bool is_grouped(std::string const& config) {
    return config.find(R"("num_key_value_heads":2)") != std::string::npos ||
           config.find(R"("num_kv_heads":2)") != std::string::npos;
}

/// Losses and gradients of a model on so many tensor-parallel ranks are those of one, bit for bit.
void check_ranks(std::string const& config, std::int32_t ranks, LeafResults const& expected, TrainingLayout const& all,
                 std::int64_t micro_batch, Recompute recompute = Recompute::none, float dropout = 0.0F,
                 int threads = 1) {
    auto const done = run_threads(ranks, [&](Threads& thread) -> Result<> {
        HostCommunicator comm(std::move(thread));
        TrainedModel own(config, threads, {comm.size(), comm.rank()});
        auto const got = train_leaves(own, micro_batch, recompute, dropout, &comm);
        CHECK(got.losses == expected.losses);
        for (std::size_t leaf = 0; leaf < expected.gradients.size(); ++leaf) {
            CAPTURE(leaf);
            auto const wanted = part_of(expected.gradients[leaf], all, own.program.layout());
            for (auto const& parameter : own.program.layout().parameters()) {
                CAPTURE(parameter.name);
                CHECK(std::equal(wanted.begin() + parameter.begin,
                                 wanted.begin() + parameter.begin + parameter.elements,
                                 got.gradients[leaf].begin() + parameter.begin));
            }
            CHECK(got.gradients[leaf] == wanted);
        }
        return {};
    });
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
}

}  // namespace

TEST_CASE("TrainingPass: tensor-parallel ranks have the losses and gradients of one, bit for bit, in every family") {
    for (auto const& golden : golden_trainings()) {
        CAPTURE(golden.name);
        TrainedModel one(golden.config);
        auto const expected = train_leaves(one, 2);
        // Heads of one key-value head on one rank, and on several; shares that are not equal.
        bool const is_shared = is_grouped(golden.config) || golden.name == "falcon_multi_query";
        std::vector<std::int32_t> degrees{2};
        if (is_shared || golden.name == "gpt2") degrees.push_back(6);
        // Of three, four and five ranks the second has a head of either key-value head, or shares one with the first.
        if (is_shared || golden.name == "gpt_neox") degrees.insert(degrees.end(), {3, 4, 5});
        for (auto const ranks : degrees) {
            CAPTURE(ranks);
            check_ranks(golden.config, ranks, expected, one.program.layout(), 2);
        }
    }
}

TEST_CASE("TrainingPass: what tensor-parallel ranks compute again and drop is what one does") {
    for (auto const& golden : golden_trainings()) {
        if (golden.name != "gpt2" && golden.name != "qwen3" && golden.name != "olmo2") continue;
        CAPTURE(golden.name);
        TrainedModel one(golden.config);
        auto const expected = train_leaves(one, 1, Recompute::none, 0.25F);
        for (auto const recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
            CAPTURE(static_cast<int>(recompute));
            check_ranks(golden.config, 2, expected, one.program.layout(), 3, recompute, 0.25F, 2);
        }
    }
}

TEST_CASE("TrainingPass: what tensor-parallel ranks cannot share is named") {
    FormulaModel const model(golden_trainings().front().config);
    auto const& of = model.checkpoint->model;
    auto const made = TrainingProgram::create(of, {7, 0});
    REQUIRE_FALSE(made);
    CHECK(made.error().message() ==
          "model.layers: tp: is more than the query heads (got 7, expected at most 6); let the others be data-parallel "
          "ranks");
    CHECK_FALSE(TrainingProgram::create(of, {2, 2}));
    // A pass needs the ranks of its program, and weights of its rank.
    HostContext context({.threads = 1});
    auto const program = TrainedModel::take(TrainingProgram::create(of, {2, 1}));
    CHECK_FALSE(TrainingPass::create(context, program, {.context = 4}));
    auto const begun = TrainedModel::take(TrainingWeights::initialise(context, of, {.seed = 3}, {2, 1}));
    auto const whole = TrainedModel::take(TrainingWeights::initialise(context, of, {.seed = 3}));
    for (std::size_t i = 0; i < begun.layout().parameters().size(); ++i) {
        auto const& parameter = begun.layout().parameters()[i];
        parameter.for_each_run({0, parameter.elements}, [&](std::int64_t at, std::int64_t own, std::int64_t count) {
            CHECK(std::equal(whole.values(i).data() + at, whole.values(i).data() + at + count,
                             begun.values(i).data() + own));
        });
    }
}
