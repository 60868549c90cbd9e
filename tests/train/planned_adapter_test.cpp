// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/training/adapted_model.hpp>
#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/plan/plan_parallel.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/estimate_training.hpp>

#include <doctest/doctest.h>

#include "../plan/plan_oracle.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace shardwise;

namespace {

ModelConfig config_of(std::string_view family, bool is_tied = false) {
    ModelConfig config;
    config.model_type = family;
    config.heads = 4;
    config.head_dim = 16;
    config.hidden_size = 64;
    config.kv_heads = family == "gpt2" ? 4 : 2;
    config.intermediate_size = 96;
    config.layers = 4;
    config.vocab_size = 128;
    config.max_positions = 64;
    config.dtype = Dtype::bf16;
    config.tie_word_embeddings = is_tied || family == "gpt2";
    return config;
}

struct Degrees {
    std::int64_t dp = 1;
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    std::int32_t zero = 0;
};
constexpr Degrees all_degrees[] = {{1, 1, 1, 0}, {2, 1, 1, 0}, {2, 1, 1, 1}, {4, 1, 1, 2}, {2, 1, 1, 3},
                                   {1, 2, 1, 0}, {1, 4, 1, 0}, {2, 2, 1, 1}, {1, 1, 2, 0}, {2, 1, 2, 3},
                                   {1, 1, 4, 0}, {1, 2, 2, 0}, {2, 2, 1, 3}};

/// What an adapter's training asks of the estimator.
EstimateRequest request_of(Degrees const& degrees) {
    EstimateRequest request{.dtype = Dtype::f32, .batch = 2, .context = 16};
    request.parallel = {.tp = degrees.tp, .pp = degrees.pp, .dp = degrees.dp};
    request.training = TrainingPlan{.zero = degrees.zero, .has_adapter = true};
    request.device = DeviceClass::cpu;
    return request;
}

/// Of what a rank has, without the copies that tensor-parallel ranks cut along the other axis: bytes of the base, and elements of the
/// adapter.
std::pair<std::int64_t, std::int64_t> held_by(TrainingLayout const& layout) {
    std::int64_t base = 0;
    std::int64_t halves = 0;
    for (auto const& parameter : layout.frozen()) base += 4 * parameter.words();
    for (auto const& parameter : layout.parameters()) halves += parameter.elements;
    return {base, halves};
}

/// Holds the estimate of a model with its adapter to what ranks of a training have.
void check(Model const& model, LowRankOptions const& options, Degrees const& degrees) {
    CAPTURE(degrees.dp);
    CAPTURE(degrees.tp);
    CAPTURE(degrees.pp);
    CAPTURE(degrees.zero);
    auto const whole = TrainingProgram::create(model, {}, options);
    REQUIRE(whole);
    auto const adapted = adapted_model(*whole);
    List<std::int64_t> begins;
    for (std::int64_t stage = 0; stage <= degrees.pp; ++stage)
        begins.push_back(stage == degrees.pp ? 4 : split_units(4, degrees.pp, stage).begin);
    auto const estimate = estimate_memory(adapted, request_of(degrees), {begins.data(), begins.size()});
    REQUIRE(estimate);
    // Whatever layers compute in, the trainer holds the same.
    auto half = request_of(degrees);
    half.dtype = Dtype::bf16;
    auto const of_half = estimate_memory(adapted, half, {begins.data(), begins.size()});
    REQUIRE(of_half);
    CHECK(of_half->terms.weights == estimate->terms.weights);
    CHECK(of_half->terms.gradients == estimate->terms.gradients);
    CHECK(of_half->terms.optimizer == estimate->terms.optimizer);
    CHECK(of_half->terms.activations < estimate->terms.activations);
    TrainOptions train;
    train.tp = static_cast<std::int32_t>(degrees.tp);
    train.pp = static_cast<std::int32_t>(degrees.pp);
    train.zero = static_cast<ZeroStage>(degrees.zero);
    auto const replica = degrees.tp * degrees.pp;
    for (auto const& device : estimate->devices) {
        if (device.place.dp > 0) continue;
        auto const at = device.place.pp * degrees.tp + device.place.tp;
        CAPTURE(at);
        auto const program = TrainingProgram::create(model, train.model_place(at), options);
        REQUIRE(program);
        auto const [base, halves] = held_by(program->layout());
        auto const share = [&](std::int64_t bytes, std::int32_t from) {
            return degrees.zero >= from ? ceil_divide(bytes, degrees.dp) : bytes;
        };
        CHECK(device.parameters == halves);
        CHECK(device.terms.gradients.count() == share(4 * halves, 2));
        CHECK(device.terms.weights.count() == share(base + 4 * halves, 3));
        // The trainer shares whole blocks of parameters: its replicas together have what the estimate shares evenly.
        BatchOptions const batch{.context = 16, .batch = 2 * degrees.dp};
        std::int64_t weights = 0;
        std::int64_t optimizer = 0;
        for (std::int64_t dp = 0; dp < degrees.dp; ++dp) {
            auto const trained =
                estimate_training(*program, AdamW{}, batch, train, {replica * degrees.dp, dp * replica + at});
            REQUIRE(trained);
            weights += trained->weights.count();
            optimizer += trained->trainer.optimizer.count();
        }
        CHECK(degrees.dp * device.terms.optimizer.count() == optimizer);
        // Tensor-parallel ranks have copies that are cut along the other axis beside.
        if (degrees.tp == 1) CHECK(degrees.dp * device.terms.weights.count() == weights);
    }
}

}  // namespace

TEST_CASE("plan of an adapter: weights, gradients and optimizer of a rank are those that the trainer has") {
    struct Base {
        std::string_view family;
        bool is_tied = false;
    };
    for (auto const& base : {Base{"llama"}, Base{"llama", true}, Base{"gpt2"}, Base{"qwen2"}}) {
        auto const model = describe(config_of(base.family, base.is_tied));
        REQUIRE(model);
        CAPTURE(base.family);
        CAPTURE(base.is_tied);
        for (auto const& degrees : all_degrees) {
            check(*model, {.rank = 4}, degrees);
            if (base.family == "gpt2") continue;
            check(*model, {.rank = 8, .targets = {"q_proj", "v_proj"}}, degrees);
            check(*model, {.rank = 16, .targets = {"self_attn.o_proj", "down_proj"}, .dropout = 0.1}, degrees);
        }
    }
}

TEST_CASE("plan of an adapter: a packed base takes the bytes that the trainer holds, layer by layer") {
    auto config = config_of("llama");
    config.hidden_size = 256;
    config.head_dim = 64;
    config.intermediate_size = 512;
    auto const model = describe(config);
    REQUIRE(model);
    auto const held_as = [&](std::string_view word) {
        auto const scheme = parse_quant_scheme(word);
        REQUIRE(scheme);
        auto held = held_products(*model, *scheme);
        REQUIRE(held);
        return *std::move(held);
    };
    auto mixed = held_as("nf4");
    for (auto const& [name, format] : held_as("Q8_0")) {
        if (name.find("layers.0.") != std::string::npos || name.find("layers.2.") != std::string::npos)
            mixed[name] = format;
    }
    for (auto const& held : {held_as("nf4"), held_as("int8"), held_as("int4-g64"), mixed}) {
        for (auto const& degrees : all_degrees) {
            if (degrees.tp > 1) continue;
            check(*model, {.rank = 4, .held = held}, degrees);
        }
    }
}

namespace {

/// Holds a search to the best of all that can be tried, and its ranks to the estimate.
void check_search(Model const& adapted, Topology const& topology, PlanRequest const& request, int& planned) {
    auto const expected = testing::PlanOracle({adapted, topology, request}).best();
    auto const plan = plan_parallel(adapted, topology, request);
    REQUIRE(plan.has_value() == expected.has_value());
    if (!plan) return;
    ++planned;
    CAPTURE(expected->degrees.dp);
    CAPTURE(expected->degrees.zero);
    CAPTURE(plan->degrees.dp);
    CAPTURE(plan->degrees.zero);
    CHECK(plan->cost.step.total() == doctest::Approx(expected->seconds).epsilon(1e-12));
    std::vector<std::int64_t> begins;
    for (auto const& stage : plan->stages) begins.push_back(stage.first_layer);
    begins.push_back(4);
    testing::PlanOracle const oracle({adapted, topology, request});
    auto const memory = oracle.estimate(plan->degrees, begins);
    for (auto const& rank : plan->ranks) {
        for (auto const& device : memory.devices) {
            if (!(device.place == rank.place)) continue;
            auto terms = device.terms;
            terms.overhead += oracle.runtime_of(topology.devices[static_cast<std::size_t>(rank.device)]);
            CHECK(rank.terms == terms);
        }
    }
}

}  // namespace

TEST_CASE("plan of an adapter: nothing that can be tried is better than the search, on devices that hold it barely") {
    auto const model = describe(config_of("llama"));
    REQUIRE(model);
    std::mt19937 random(5);
    int planned = 0;
    for (int i = 0; i < 40; ++i) {
        CAPTURE(i);
        LowRankOptions options{.rank = std::int64_t{1} << (random() % 5 + 2)};
        if (random() % 2 == 0) options.targets = {"q_proj", "v_proj"};
        auto const program = TrainingProgram::create(*model, {}, options);
        REQUIRE(program);
        auto const adapted = adapted_model(*program);
        auto topology = parse_topology(random() % 2 == 0 ? "4xA100-40GB" : "2x(2xT4)");
        REQUIRE(topology);
        for (auto& device : topology->devices) {
            device.memory = 512_MiB + Bytes{static_cast<std::int64_t>(300'000 + random() % 900'000)};
            device.is_whole_memory = false;
        }
        PlanRequest request{.estimate = {.dtype = Dtype::bf16, .batch = 4, .context = 32}};
        request.estimate.training =
            TrainingPlan{.recompute = static_cast<Recompute>(random() % 3), .has_adapter = true};
        request.is_recompute_fixed = request.is_sequence_parallel_fixed = true;
        request.objective = static_cast<PlanObjective>(random() % 3);
        check_search(adapted, *topology, request, planned);
    }
    CHECK(planned > 15);
    CHECK(planned < 40);
}

TEST_CASE("plan of an adapter: keeps to the degrees that are given") {
    auto const model = describe(config_of("llama"));
    auto const topology = parse_topology("4xA100-40GB");
    REQUIRE((model && topology));
    auto const program = TrainingProgram::create(*model, {}, {.rank = 2});
    REQUIRE(program);
    auto const adapted = adapted_model(*program);
    PlanRequest request{.estimate = {.dtype = Dtype::f32, .batch = 1, .context = 64}};
    request.estimate.training = TrainingPlan{.has_adapter = true};
    request.limits = {.tp = {2}, .max_pp = 1, .max_ep = 1};
    auto plan = plan_parallel(adapted, *topology, request);
    REQUIRE(plan);
    CHECK(plan->degrees.tp == 2);
    CHECK(plan->degrees.pp == 1);
    for (auto const& other : plan->alternatives) CHECK(other.degrees.tp == 2);
    // No other is there.
    request.pins.pp = 2;
    plan = plan_parallel(adapted, *topology, request);
    CHECK(!plan);
}

TEST_CASE("plan of an adapter: a step exchanges its gradients alone, and frozen products have one backward product") {
    auto const model = describe(presets::llama_3_8b);
    auto const topology = parse_topology("2xA100-80GB");
    REQUIRE((model && topology));
    auto const program = TrainingProgram::create(*model, {}, {.rank = 1});
    REQUIRE(program);
    auto const adapted = adapted_model(*program);
    // Of the same model, all of it trained or the adapter alone.
    auto const cost_of = [&](bool has_adapter) {
        CostModel cost(
            adapted,
            {.dtype = Dtype::f32, .batch = 2, .context = 2048, .training = TrainingPlan{.has_adapter = has_adapter}});
        List<PlanStage> stages{{.layer_count = 32, .has_embedding = true, .has_head = true}};
        StageSite site;
        site.device = &topology->devices[0];
        site.dp = {2, 2, topology->devices[0].link, {}};
        return plan_cost(cost, {.dp = 2}, {stages.data(), stages.size()}, {&site, 1}).step;
    };
    auto const frozen = cost_of(true);
    auto const whole = cost_of(false);
    CHECK(frozen.compute / whole.compute == doctest::Approx(2.0 / 3.0).epsilon(0.03));
    CHECK(frozen.data_parallel < 0.01 * whole.data_parallel);
    auto const share =
        static_cast<double>(program->layout().whole_elements()) / static_cast<double>(count_parameters(adapted.tree));
    CHECK(frozen.optimizer / whole.optimizer == doctest::Approx(share).epsilon(1e-6));
}

TEST_CASE("plan of an adapter: a step gathers the bytes of the base that ranks hold, a tied table once") {
    for (bool const is_tied : {false, true}) {
        CAPTURE(is_tied);
        auto const model = describe(config_of("llama", is_tied));
        REQUIRE(model);
        auto const program = TrainingProgram::create(*model, {}, {.rank = 4});
        REQUIRE(program);
        auto const adapted = adapted_model(*program);
        auto const request = request_of({});
        auto const parts = request_parts(adapted, request);
        auto const weights = body_weights(adapted, parts, request);
        BodyWeights sum;
        parts.for_each_block(adapted.program, 0, 4, [&](std::size_t body, std::int64_t count) {
            sum += static_cast<double>(count) * weights[body];
        });
        auto const [base, halves] = held_by(program->layout());
        CHECK(sum.frozen_dense_bytes == static_cast<double>(base));
        CHECK(sum.trained_dense() == static_cast<double>(halves));
        CHECK(sum.trained_experts() == 0.0);
    }
}

TEST_CASE("plan of an adapter: what is not trained by some tensor-parallel ranks is not by more of them") {
    for (std::string_view const family : {"llama", "gpt2", "qwen2"}) {
        auto config = config_of(family);
        config.heads = 8;
        config.head_dim = 8;
        config.vocab_size = 6;
        auto const model = describe(config);
        REQUIRE(model);
        auto const held = held_products(*model, *parse_quant_scheme("int8"));
        REQUIRE(held);
        for (std::int64_t rank = 1; rank <= 9; ++rank) {
            for (auto const& base : {HeldProducts{}, *held}) {
                bool runs = true;
                std::int64_t largest = 0;
                for (std::int64_t tp = 1; tp <= 9; ++tp) {
                    TrainOptions options;
                    options.tp = static_cast<std::int32_t>(tp);
                    bool const is_trained =
                        TrainingProgram::create(*model, options.model_place(0), {.rank = rank, .held = base})
                            .has_value();
                    CHECK((runs || !is_trained));
                    runs = is_trained;
                    if (runs) largest = tp;
                }
                // Six words, eight heads.
                CHECK(largest <= std::min<std::int64_t>(rank, 6));
                CHECK(largest >= 1);
            }
        }
    }
}
