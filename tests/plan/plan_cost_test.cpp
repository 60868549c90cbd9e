// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/plan_cost.hpp>

#include <doctest/doctest.h>

#include "../../bench/published_sources.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

using namespace shardwise;

namespace {

/// Equal but for rounding, however small: seconds are.
doctest::Approx near(double value) {
    return doctest::Approx(value).scale(0.0);
}

Device device(std::string_view name) {
    return *find_device_preset(name);
}

/// Stages of so many seconds each, as if priced.
List<StageCost> stages_of(std::initializer_list<double> seconds) {
    List<StageCost> stages;
    for (auto const each : seconds) {
        StageCost stage;
        stage.terms.compute = each;
        stage.backward_seconds = each * 2.0 / 3.0;
        stages.push_back(stage);
    }
    return stages;
}

constexpr Efficiency perfect{.product = 1.0,
                             .attention = 1.0,
                             .memory = 1.0,
                             .vectors = 1.0,
                             .unhidden = 0.0,
                             .unpack_operations = 0.0,
                             .link = 1.0,
                             .overlap = 0.0,
                             .kernel_seconds = 0.0,
                             .step_seconds = 0.0};

CostTerms step(List<StageCost> const& stages, PlanDegrees const& degrees, StepSetting setting, StageSite site = {}) {
    auto const a100 = device("A100-80GB");
    site.device = &a100;
    setting.efficiency = perfect;
    return step_cost({stages.data(), stages.size()}, {&site, 1}, degrees, setting);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

// Narayanan et al., SC21 (arXiv 2104.04473), section 2.2: (p - 1) / m of the work, divided by the chunks
TEST_CASE("step cost: training waits (p - 1) / m of its work while the pipeline fills and drains") {
    auto const stages = stages_of({3.0, 3.0, 3.0, 3.0});
    auto const terms = step(stages, {.pp = 4, .micro_batches = 8}, {.pass = Pass::training});
    CHECK(terms.compute == near(24.0));
    CHECK(terms.bubble == near(9.0));
    CHECK(step(stages, {.pp = 4, .micro_batches = 8}, {.pass = Pass::training, .chunks = 3}).bubble == near(3.0));
}

TEST_CASE("step cost: the slowest stage is paid for every micro-batch, the others once") {
    auto const stages = stages_of({1.0, 4.0, 2.0});
    auto const terms = step(stages, {.pp = 3, .micro_batches = 5}, {.pass = Pass::prefill});
    CHECK(terms.compute == near(20.0));
    CHECK(terms.bubble == near(3.0));
}

TEST_CASE("step cost: a decoded token passes all stages, or waits until the slowest has served the others") {
    auto const stages = stages_of({1.0, 2.0, 1.0});
    auto const alone = step(stages, {.pp = 3, .micro_batches = 1}, {.pass = Pass::decode});
    CHECK(alone.total() == near(4.0));
    CHECK(alone.bubble == near(2.0));
    auto const full = step(stages, {.pp = 3, .micro_batches = 4}, {.pass = Pass::decode});
    CHECK(full.total() == near(8.0));
    CHECK(full.bubble == 0.0);
}

TEST_CASE("step cost: a message to the next stage goes in parts, and both ways in training") {
    auto stages = stages_of({1.0, 1.0});
    stages[0].output_bytes = 800.0;
    StageSite site;
    site.tp = RankGroup::in_node(4, {LinkType::nvlink, 100.0, 1.0});
    site.next = {LinkType::ethernet, 10.0, 5.0};
    // A quarter of the bytes over the slow link, then a gather of them all among four.
    auto const once = (5.0 + 20.0) + (2.0 + 6.0);
    auto const two = PlanDegrees{.tp = 4, .pp = 2, .micro_batches = 3};
    CHECK(step(stages, two, {.pass = Pass::prefill}, site).pipeline == near(3.0 * once));
    CHECK(step(stages, two, {.pass = Pass::training}, site).pipeline == near(3.0 * 2.0 * once));
    CHECK(step(stages, two, {.pass = Pass::training, .chunks = 2}, site).pipeline == near(3.0 * 4.0 * once));
}

// Rajbhandari et al., ZeRO, 2020, section 7: stages 1 and 2 send what an all-reduce does, stage 3 half as much again
TEST_CASE("step cost: gradients are reduced once, ZeRO's third stage gathers weights as well") {
    auto stages = stages_of({1.0});
    stages[0].weights.dense_parameters = 400.0;
    StageSite site;
    site.dp = RankGroup::in_node(8, {LinkType::nvlink, 100.0, 0.0});
    auto const at = [&](std::int32_t zero, std::int64_t m) {
        return step(stages, {.dp = 8, .zero = zero, .micro_batches = m}, {.pass = Pass::training}, site).data_parallel;
    };
    // 800 bytes, of which 7 / 8 move twice at 100 bytes a second.
    CHECK(at(0, 1) == near(14.0));
    CHECK(at(1, 1) == near(14.0));
    CHECK(at(2, 1) == near(14.0));
    CHECK(at(3, 1) == near(21.0));
    CHECK(at(1, 4) == near(14.0));
    CHECK(at(2, 4) == near(35.0));
    CHECK(at(3, 4) == near(84.0));
}

TEST_CASE("step cost: experts are reduced over fewer ranks than what each expert-parallel rank holds whole") {
    auto stages = stages_of({1.0});
    stages[0].weights.dense_parameters = 400.0;
    stages[0].weights.expert_parameters = 1000.0;
    StageSite site;
    site.ep = RankGroup::in_node(4, {LinkType::nvlink, 100.0, 0.0});
    site.dp = RankGroup::in_node(2, {LinkType::nvlink, 100.0, 0.0});
    auto const terms = step(stages, {.dp = 2, .ep = 4}, {.pass = Pass::training}, site);
    CHECK(terms.data_parallel == near(2.0 * 800.0 * 7 / 8 / 100.0 + 2.0 * 2000.0 / 2 / 100.0));
}

TEST_CASE("step cost: what is reduced during the backward pass costs nothing") {
    auto stages = stages_of({30.0});
    stages[0].weights.dense_parameters = 400.0;
    StageSite site;
    site.dp = RankGroup::in_node(8, {LinkType::nvlink, 100.0, 0.0});
    auto const a100 = device("A100-80GB");
    site.device = &a100;
    StepSetting setting{.pass = Pass::training, .efficiency = perfect};
    setting.efficiency.overlap = 1.0;
    auto const at = [&](std::int32_t zero, std::int64_t m) {
        PlanDegrees const degrees{.dp = 8, .zero = zero, .micro_batches = m};
        return step_cost({stages.data(), 1}, {&site, 1}, degrees, setting).data_parallel;
    };
    // 20 seconds of backward pass hide the 14 of the reduction; 4 hide 4.
    CHECK(at(0, 1) == 0.0);
    stages[0].backward_seconds = 4.0;
    CHECK(at(0, 1) == near(10.0));
    CHECK(at(1, 5) == near(10.0));
    // Stage 2 has 6 times 7 seconds after five backward passes, stage 3 15 times 7 after five whole micro-batches.
    CHECK(at(2, 5) == near(42.0 - 20.0));
    stages[0].terms.compute = 6.0;
    CHECK(at(3, 5) == near(105.0 - 30.0));
}

TEST_CASE("step cost: Adam moves 28 bytes for each parameter of a 16-bit model, and of a 32-bit one") {
    auto stages = stages_of({1.0});
    stages[0].weights.dense_parameters = 2039e9;
    stages[0].weights.tied_parameters = 1019.5e9;
    auto const at = [&](PlanDegrees const& degrees, OptimizerKind optimizer, double bytes) {
        return step(stages, degrees, {.pass = Pass::training, .optimizer = optimizer, .element_bytes = bytes})
            .optimizer;
    };
    // Moments 2 * 8, weights 2 * 4, gradient 2, 16-bit weight 2, at 2039 GB/s; the tied half is another block's.
    CHECK(at({}, OptimizerKind::adam, 2.0) == near(14.0));
    CHECK(at({}, OptimizerKind::adam, 4.0) == near(14.0));
    CHECK(at({}, OptimizerKind::sgd, 2.0) == near(10.0));
    CHECK(at({.dp = 4, .zero = 1}, OptimizerKind::adam, 2.0) == near(3.5));
    CHECK(at({.dp = 4}, OptimizerKind::adam, 2.0) == near(14.0));
}

TEST_CASE("plan cost: one device decodes in the time of its blocks and the step's own") {
    auto const model = *describe(presets::llama_3_8b);
    CostModel costs(model, {.batch = 4, .context = 1024});
    auto const h100 = device("H100-80GB");
    StageSite const site{&h100};
    PlanStage stage{0, 32, true, true};
    auto const cost = plan_cost(costs, {}, {&stage, 1}, {&site, 1});
    double sum = default_efficiency.step_seconds;
    auto const bodies = costs.bodies({.pass = Pass::decode, .batch = 4}, h100);
    for (auto const& block : model.program.blocks())
        sum += block.count * bodies[static_cast<std::size_t>(block.body)].terms.total();
    CHECK(cost.step.total() == near(sum));
    CHECK(stage.seconds == near(sum - default_efficiency.step_seconds));
    CHECK(cost.tokens_per_second == near(4.0 / sum));
    CHECK(cost.prefill.total() > cost.step.total());
    CHECK(cost.step.tensor_parallel + cost.step.pipeline + cost.step.data_parallel + cost.step.bubble == 0.0);
}

TEST_CASE("plan cost: stages together hold each block once") {
    for (auto const* config :
         {&presets::gemma_3_1b, &presets::deepseek_v2_lite, &presets::t5_small, &presets::bert_base}) {
        auto const model = *describe(*config);
        CostModel costs(model, {.context = 128});
        auto const a100 = device("A100-80GB");
        auto const bodies = costs.bodies({.pass = Pass::prefill}, a100);
        auto const whole = stage_cost(costs, bodies, 0, costs.layers());
        StageCost parts;
        for (std::int64_t layer = 0; layer < costs.layers(); ++layer) parts += stage_cost(costs, bodies, layer, 1);
        CHECK(parts.terms.total() == near(whole.terms.total()));
        CHECK(parts.weights.dense == near(whole.weights.dense));
        CHECK(parts.output_bytes == whole.output_bytes);
    }
}

TEST_CASE("plan cost: the embedding goes with the first layer, norm and head with the last") {
    auto const model = *describe(presets::llama_3_8b);
    CostModel costs(model, {.context = 128});
    auto const a100 = device("A100-80GB");
    auto const bodies = costs.bodies({.pass = Pass::prefill}, a100);
    auto const layer = [&](std::int64_t number) { return stage_cost(costs, bodies, number, 1); };
    auto const table = 2.0 * 128256 * 4096;
    CHECK(layer(0).weights.tables == table);
    CHECK(layer(1).weights.tables == 0.0);
    CHECK(layer(31).weights.dense == layer(1).weights.dense + table + 2.0 * 4096);
    CHECK(layer(0).weights.dense == layer(1).weights.dense);
    CHECK(layer(31).output_bytes == 4.0 * 128256);
}

TEST_CASE("plan cost: sequences are split over data- and expert-parallel ranks, then cut into micro-batches") {
    EstimateRequest request;
    request.batch = 100;
    CHECK(micro_batch_size(request, {}) == 100);
    CHECK(micro_batch_size(request, {.dp = 8}) == 13);
    CHECK(micro_batch_size(request, {.dp = 4, .ep = 2}) == 13);
    CHECK(micro_batch_size(request, {.dp = 8, .micro_batches = 5}) == 3);
}

TEST_CASE("plan cost: faster links and devices never make a plan slower") {
    std::mt19937 random(11);
    auto const pick = [&](std::int64_t most) {
        return std::int64_t{1} << std::uniform_int_distribution<>(0, static_cast<int>(most))(random);
    };
    auto const dense = *describe(presets::llama_2_7b);
    auto const mixture = *describe(presets::mixtral_8x7b);
    for (int round = 0; round < 60; ++round) {
        bool const is_mixture = round % 2 == 0;
        auto const& model = is_mixture ? mixture : dense;
        EstimateRequest request{.batch = 64, .context = 512};
        if (round % 3 == 0) request.training = TrainingPlan{.recompute = static_cast<Recompute>(round % 9 / 3)};
        PlanDegrees const degrees{.tp = pick(3),
                                  .pp = pick(3),
                                  .dp = pick(2),
                                  .ep = is_mixture ? pick(3) : 1,
                                  .zero = request.training ? static_cast<std::int32_t>(round % 4) : 0,
                                  .micro_batches = pick(3)};
        auto const at = [&](double faster) {
            auto a100 = device("A100-80GB");
            a100.bandwidth *= faster;
            a100.peak.bf16 *= faster;
            a100.peak.fp32 *= faster;
            Link const near{LinkType::nvlink, 300e9 * faster, 5e-6 / faster};
            Link const far{LinkType::infiniband, 25e9 * faster, 10e-6 / faster};
            StageSite const site{&a100,
                                 RankGroup::in_node(degrees.tp, near),
                                 {degrees.ep, 1, near, far},
                                 {degrees.dp, 1, near, far},
                                 far};
            List<PlanStage> stages;
            for (std::int64_t p = 0; p < degrees.pp; ++p) {
                auto const layers = split_units(32, degrees.pp, p);
                stages.push_back({layers.begin, layers.size()});
            }
            CostModel costs(model, request);
            return plan_cost(costs, degrees, {stages.data(), stages.size()}, {&site, 1});
        };
        auto const slow = at(1.0);
        auto const fast = at(1.7);
        CHECK(fast.step.total() < slow.step.total());
        CHECK(fast.tokens_per_second > slow.tokens_per_second);
        CHECK(slow.step.total() < 1.7 * fast.step.total() + 1e-12);
        for (auto const& [name, term] : CostTerms::cost_term_names()) CHECK(slow.step.*term >= 0.0);
        if (degrees.tp == 1) CHECK(slow.step.tensor_parallel == 0.0);
        if (degrees.pp == 1) CHECK(slow.step.pipeline + slow.step.bubble == 0.0);
        if (degrees.ep == 1) CHECK(slow.step.expert_parallel == 0.0);
        if (degrees.dp * degrees.ep == 1 || !request.training) CHECK(slow.step.data_parallel == 0.0);
        if (!request.training) CHECK(slow.step.optimizer == 0.0);
        CHECK((slow.prefill.total() > 0.0) == !request.training);
    }
}

TEST_CASE("published rows: the documentation's table is what the model says today") {
    std::ifstream file(SHARDWISE_SOURCE_DIR "/docs/explanation/cost-model.md");
    std::string const text{std::istreambuf_iterator<char>(file), {}};
    // bench_cost --markdown prints it anew.
    for (auto const& row : published::rows())
        CHECK_MESSAGE(text.find(published::markdown_row(row)) != std::string::npos, row.name);
}

TEST_CASE("published rows: one set of constants, half of all rows within 25 %, and half of those held out") {
    std::vector<double> all;
    std::vector<double> held_out;
    for (auto const& row : published::rows()) {
        auto const error = published::error_of(row, published::answer(row));
        CHECK_MESSAGE(error < 2.0, row.name);
        all.push_back(error);
        if (row.is_held_out) held_out.push_back(error);
    }
    CHECK(all.size() >= 10);
    CHECK(held_out.size() * 3 >= all.size());
    CHECK(median(all) <= 0.25);
    CHECK(median(held_out) <= 0.25);
}
