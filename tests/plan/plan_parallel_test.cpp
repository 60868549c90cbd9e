// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/spec.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/plan_parallel.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <string>

using namespace shardwise;

namespace {

Topology topology_named(std::string_view spec) {
    auto const devices = parse_device_spec(spec);
    REQUIRE(devices);
    return topology_of(*devices);
}

Result<ParallelPlan> plan_of(ModelConfig const& config, std::string_view spec, PlanRequest const& request = {}) {
    auto const model = describe(config);
    REQUIRE(model);
    return plan_parallel(*model, topology_named(spec), request);
}

bool has_reason(ParallelPlan const& plan, std::string_view text) {
    for (auto const& reason : plan.reasons) {
        if (reason.find(text) != std::string::npos) return true;
    }
    return false;
}

std::int64_t milliseconds_of(ModelConfig const& config, std::string_view spec, PlanRequest const& request) {
    auto const model = describe(config);
    auto const topology = topology_named(spec);
    auto const start = std::chrono::steady_clock::now();
    CHECK(plan_parallel(*model, topology, request));
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("plan: tensor parallelism stops at the node's fast domain, and the report says so with numbers") {
    auto const plan = plan_of(presets::llama_3_70b, "2x(8xH100-80GB)", {.estimate = {.batch = 32}});
    REQUIRE(plan);
    CHECK(plan->degrees.tp == 8);
    CHECK(has_reason(*plan, "tensor parallel stops at 8: the node's NVLink domain; 16"));
    CHECK(has_reason(*plan, "would cross the network (InfiniBand) and cost"));
    CHECK(has_reason(*plan, "times the step"));
}

TEST_CASE("plan: every stage, rank and device is listed, ranks in the estimator's order") {
    auto const plan = plan_of(presets::llama_3_70b, "4xA100-40GB", {.estimate = {.batch = 4, .context = 8192}});
    REQUIRE(plan);
    CHECK(plan->ranks.size() == static_cast<std::size_t>(plan->degrees.ranks()));
    std::int64_t layers = 0;
    for (auto const& stage : plan->stages) {
        CHECK(stage.first_layer == layers);
        CHECK(stage.seconds > 0.0);
        layers += stage.layer_count;
    }
    CHECK(layers == 80);
    CHECK(plan->stages[0].has_embedding);
    CHECK(plan->stages[plan->stages.size() - 1].has_head);
    std::set<std::int32_t> devices;
    for (auto const& rank : plan->ranks) {
        CHECK(devices.insert(rank.device).second);
        CHECK(rank.terms.total() <= share_of(40_GiB, 0.92));
    }
}

TEST_CASE("plan: the fewest devices are no more than needed, and one device less has no plan") {
    auto const model = *describe(presets::llama_3_70b);
    PlanRequest request{.estimate = {.context = 8192}, .objective = PlanObjective::devices};
    auto const plan = plan_parallel(model, topology_named("8xA100-40GB"), request);
    REQUIRE(plan);
    // facts/memory.md: four 40 GiB cards hold it, three do not.
    CHECK(plan->degrees.ranks() == 4);
    CHECK(has_plan(model, topology_named("4xA100-40GB"), request));
    CHECK(!has_plan(model, topology_named("3xA100-40GB"), request));
    for (auto const& alternative : plan->alternatives) CHECK(alternative.degrees.ranks() >= 4);
}

TEST_CASE(
    "plan: where nothing fits the error names the closest cut, what its fullest rank needs and has, and what would "
    "do") {
    auto const plan = plan_of(presets::llama_3_70b, "3xA100-40GB", {.estimate = {.context = 8192}});
    REQUIRE(!plan);
    auto const error = plan.error();
    CHECK(error.code() == ErrorCode::out_of_memory);
    CHECK(error.available() == share_of(40_GiB, 0.92));
    CHECK(error.needed() > share_of(40_GiB, 0.92));
    CHECK(error.message().find("closest cut (tp 3)") != std::string::npos);
    CHECK(error.message().find("--quant fp8") != std::string::npos);
    // The cache alone does not bring 141 GB of weights into 120.
    CHECK(error.message().find("--kv-dtype") == std::string::npos);
    CHECK(error.message().find("1 more device like the last") != std::string::npos);
    CHECK(plan_of(presets::llama_3_70b, "4xA100-40GB", {.estimate = {.context = 8192}}));
    CHECK(plan_of(presets::llama_3_70b, "3xA100-40GB", {.estimate = {.quant = QuantScheme::fp8(), .context = 8192}}));
}

TEST_CASE("plan: training that does not fit is told to recompute or to shorten its context, and then fits") {
    PlanRequest request{.estimate = {.batch = 8, .context = 8192, .training = TrainingPlan{}},
                        .is_recompute_fixed = true,
                        .is_sequence_parallel_fixed = true};
    auto const refused = plan_of(presets::llama_3_8b, "2xA100-80GB", request);
    REQUIRE(!refused);
    CHECK(refused.error().message().find("--recompute full") != std::string::npos);
    request.estimate.training->recompute = Recompute::full;
    CHECK(plan_of(presets::llama_3_8b, "2xA100-80GB", request));
    // Left to the search, it is found.
    request.estimate.training->recompute = Recompute::none;
    request.is_recompute_fixed = false;
    CHECK(plan_of(presets::llama_3_8b, "2xA100-80GB", request)->recompute == Recompute::full);
    CHECK(has_plan(*describe(presets::llama_3_8b), topology_named("2xA100-80GB"), request));
}

TEST_CASE("plan: Megatron-LM's report is refused by name, its paper's table is not") {
    PlanRequest request{.estimate = {.batch = 8, .training = TrainingPlan{.convention = MemoryConvention::megatron}}};
    auto const refused = plan_of(presets::llama_3_8b, "8xA100-80GB", request);
    REQUIRE(!refused);
    CHECK(refused.error().message().find("convention: is Megatron-LM's report") != std::string::npos);
    request.estimate.training->convention = MemoryConvention::megatron_paper;
    CHECK(plan_of(presets::llama_3_8b, "8xA100-80GB", request));
}

TEST_CASE("plan: training searches what it computes again and sequence parallelism, and names what it chose") {
    auto const plan_with = [](int recompute, int sequence) {
        PlanRequest request{.estimate = {.batch = 512, .context = 8192, .training = TrainingPlan{}, .utilization = 1.0},
                            .is_recompute_fixed = recompute >= 0,
                            .is_sequence_parallel_fixed = sequence >= 0};
        if (recompute >= 0) request.estimate.training->recompute = static_cast<Recompute>(recompute);
        request.estimate.parallel.sequence_parallel = sequence > 0;
        return plan_of(presets::llama_3_1_70b, "8x(8xH100-80GB)", request);
    };
    auto const free = plan_with(-1, -1);
    REQUIRE(free);
    double best = 0.0;
    for (int recompute = 0; recompute < 3; ++recompute) {
        for (int sequence = 0; sequence < 2; ++sequence) {
            auto const fixed = plan_with(recompute, sequence);
            REQUIRE(fixed);
            CHECK(fixed->recompute == static_cast<Recompute>(recompute));
            CHECK(fixed->is_sequence_parallel == (sequence == 1));
            best = std::max(best, fixed->cost.tokens_per_second);
            bool const is_chosen = fixed->recompute == free->recompute &&
                                   fixed->is_sequence_parallel == free->is_sequence_parallel;
            if (is_chosen) CHECK(fixed->degrees == free->degrees);
        }
    }
    CHECK(free->cost.tokens_per_second == best);
    // What --recompute full given by hand finds.
    CHECK(best >= plan_with(2, -1)->cost.tokens_per_second);
    CHECK(best > 59000.0);
    auto const says = [&](std::string_view text) {
        return std::any_of(free->reasons.begin(), free->reasons.end(),
                           [&](std::string const& reason) { return reason.find(text) == 0; });
    };
    CHECK(says("no recomputation: in full it would cost 1."));
    CHECK(says(free->is_sequence_parallel ? "sequence parallel: " : "not sequence parallel: "));
}

TEST_CASE("plan: of equally good variants training takes what computes less again, without sequence parallelism") {
    auto const plan = plan_of(presets::gpt2, "1xH100-80GB", {.estimate = {.batch = 1, .training = TrainingPlan{}}});
    REQUIRE(plan);
    CHECK(plan->recompute == Recompute::none);
    CHECK(!plan->is_sequence_parallel);
}

TEST_CASE("plan: ZeRO's stage is searched in training unless it is fixed, and is 0 in inference") {
    PlanRequest request{.estimate = {.batch = 16, .training = TrainingPlan{.recompute = Recompute::selective}},
                        .is_recompute_fixed = true};
    auto const free = plan_of(presets::llama_3_8b, "8xA100-80GB", request);
    REQUIRE(free);
    CHECK(free->degrees.zero > 0);
    request.pins.zero = 3;
    auto const fixed = plan_of(presets::llama_3_8b, "8xA100-80GB", request);
    REQUIRE(fixed);
    CHECK(fixed->degrees.zero == 3);
    CHECK(fixed->cost.step.total() >= free->cost.step.total());
    CHECK(plan_of(presets::llama_3_8b, "8xA100-80GB")->degrees.zero == 0);
}

TEST_CASE("plan: degrees need not divide heads or vocabulary, and the report says what is uneven") {
    auto const plan = plan_of(presets::qwen2_5_7b, "3xA100-80GB");
    REQUIRE(plan);
    CHECK(plan->degrees.tp == 3);
    CHECK(has_reason(*plan, "uneven but legal: 28 query heads"));
    CHECK(has_reason(*plan, "several ranks hold the same of the 4 key-value heads"));
}

TEST_CASE("plan: runners-up are of other kinds, each worse and with the reason, the least loss first") {
    auto const plan = plan_of(presets::mixtral_8x7b, "4xA100-80GB", {.estimate = {.batch = 8}});
    REQUIRE(plan);
    CHECK(plan->alternatives.size() == max_alternatives);
    CHECK(plan->examined > 0);
    std::set<std::size_t> kinds{kind_of_parallelism(plan->degrees)};
    double loss = 0.0;
    for (auto const& other : plan->alternatives) {
        CHECK(kinds.insert(kind_of_parallelism(other.degrees)).second);
        CHECK(other.loss >= loss);
        CHECK(other.reason.find("times the step, above all for") != std::string::npos);
        CHECK(other.largest_rank <= 80_GiB);
        loss = other.loss;
    }
}

TEST_CASE("plan: without a batch throughput chooses the one with the most tokens per second that fits") {
    PlanRequest request{.estimate = {.batch = 0, .context = 2048}, .objective = PlanObjective::throughput};
    auto const free = plan_of(presets::llama_3_8b, "2xA100-80GB", request);
    REQUIRE(free);
    CHECK(free->batch > 1);
    for (std::int64_t batch = 1; batch <= 2 * free->batch; batch *= 2) {
        request.estimate.batch = batch;
        auto const fixed = plan_of(presets::llama_3_8b, "2xA100-80GB", request);
        if (fixed) CHECK(fixed->cost.tokens_per_second <= free->cost.tokens_per_second);
    }
    request.estimate.batch = 0;
    request.objective = PlanObjective::latency;
    CHECK(plan_of(presets::llama_3_8b, "2xA100-80GB", request)->batch == 1);
}

TEST_CASE("plan: without accelerators there is nothing to plan") {
    auto const plan = plan_of(presets::llama_3_8b, "cpu:64GiB");
    REQUIRE(!plan);
    CHECK(plan.error().code() == ErrorCode::no_such_device);
}

TEST_CASE("plan: ranks on processors take nothing of what a GPU's runtime takes") {
    auto const model = describe(presets::smollm2_135m);
    REQUIRE(model);
    auto topology = topology_named("1xT4");
    auto const gpu = plan_parallel(*model, topology, {});
    topology.devices[0].kind = DeviceKind::cpu;
    auto const cpu = plan_parallel(*model, topology, {});
    REQUIRE(gpu);
    REQUIRE(cpu);
    CHECK(gpu->ranks[0].terms.overhead == 512_MiB);
    CHECK(cpu->ranks[0].terms.overhead == 0_B);
    CHECK(cpu->ranks[0].terms.total() == gpu->ranks[0].terms.total() - 512_MiB);
}

TEST_CASE("plan: beside a GPU a processor's rank takes nothing of its runtime either") {
    auto const model = describe(presets::smollm2_135m);
    REQUIRE(model);
    PlanRequest const request{.estimate = {.context = 512}, .objective = PlanObjective::devices};
    auto const whole = estimate_memory(*model, request.estimate)->total;
    auto topology = topology_named("2xT4:15GiB");
    topology.devices[1].kind = DeviceKind::cpu;
    // The GPU has too little for its runtime and the model, the processor has just enough for the model.
    topology.devices[0].memory = whole - 1_MiB;
    topology.devices[1].memory = whole - 512_MiB;
    auto const plan = plan_parallel(*model, topology, request);
    REQUIRE(plan);
    REQUIRE(plan->ranks.size() == 1);
    CHECK(plan->ranks[0].device == 1);
    CHECK(plan->ranks[0].terms.total() == whole - 512_MiB);
    // With a little less both of them share it, and each counts what its own kind takes.
    topology.devices[1].memory -= 1_MiB;
    auto const both = plan_parallel(*model, topology, request);
    REQUIRE(both);
    REQUIRE(both->ranks.size() == 2);
    for (auto const& rank : both->ranks) {
        bool const is_gpu = rank.device == 0;
        CHECK((rank.terms.overhead >= 512_MiB) == is_gpu);
        CHECK(rank.terms.total() <=
              topology.devices[static_cast<std::size_t>(rank.device)].usable(default_utilization));
    }
    // Where nothing fits, what is needed and what there is are those of the whole device.
    topology.devices[0].memory = 530_MiB;
    topology.devices[1].memory = 20_MiB;
    auto const none = plan_parallel(*model, topology, request);
    REQUIRE(!none);
    bool const is_gpu = none.error().message().find("530.00 MiB") != std::string::npos;
    CHECK((is_gpu || none.error().message().find("20.00 MiB") != std::string::npos));
}

TEST_CASE("plan: what a lower stage of ZeRO would need is held against each rank's own device") {
    // The fullest rank lies on an H100; it need not fit the RTX4090 on which others lie.
    PlanRequest const request{
        .estimate = {.batch = 272, .context = 1024, .training = TrainingPlan{.recompute = Recompute::selective}},
        .is_recompute_fixed = true,
        .is_sequence_parallel_fixed = true};
    auto const plan = plan_of(presets::llama_2_7b, "3x(8xRTX4090)+3x(3xH100-80GB)", request);
    REQUIRE(plan);
    REQUIRE(plan->degrees.zero == 1);
    bool is_said = false;
    for (auto const& reason : plan->reasons)
        is_said = is_said || reason.find("ZeRO stage 1; stage 0 would cost 1.0") != std::string::npos;
    CHECK(is_said);
}

TEST_CASE("plan: how many times a step something takes is told from once") {
    CHECK(detail::times_text(3.14) == "3.1 times the step");
    CHECK(detail::times_text(1.04) == "1.04 times the step");
    CHECK(detail::times_text(1.0021) == "1.002 times the step");
    CHECK(detail::times_text(1.0002) == "1.0002 times the step");
    CHECK(detail::times_text(0.97) == "0.97 times the step");
}

TEST_CASE("plan: over nodes of five devices no tensor-parallel degree is better than the plan's" *
          doctest::test_suite("large")) {
    auto const model = describe(presets::qwen2_5_72b);
    REQUIRE(model);
    auto const topology = topology_named("8x(5xA100-80GB)");
    for (std::int64_t const batch : {1, 16}) {
        PlanRequest const request{.estimate = {.batch = batch}};
        auto const plan = plan_parallel(*model, topology, request);
        REQUIRE(plan);
        PlanSearch search(*model, topology, request);
        for (std::int64_t tp = 1; tp <= 40; ++tp) {
            for (std::int64_t pp = 1; pp * tp <= 40; ++pp) {
                for (std::int64_t dp = 1; dp <= batch && dp * pp * tp <= 40; ++dp) {
                    auto const other = search.best_of({.tp = tp, .pp = pp, .dp = dp});
                    CAPTURE(batch);
                    CAPTURE(tp);
                    CAPTURE(pp);
                    CAPTURE(dp);
                    if (other.is_found) CHECK(plan->cost.step.total() <= other.cost.step.total() * (1.0 + 1e-12));
                }
            }
        }
    }
}

TEST_CASE("plan: of unequal devices the smaller one gets the shorter stage") {
    // 54 GB of weights in 16 bits: neither device holds them, nor does the smaller one half of them.
    auto const plan =
        plan_of(presets::gemma_2_27b, "1xA100-40GB+1xRTX4090", {.estimate = {.dtype = Dtype::bf16, .context = 1024}});
    REQUIRE(plan);
    CHECK(plan->degrees.pp == 2);
    CHECK(plan->degrees.tp == 1);
    for (auto const& rank : plan->ranks) {
        auto const& stage = plan->stages[static_cast<std::size_t>(rank.place.pp)];
        CHECK(rank.terms.total() <= (rank.device == 0 ? 40_GiB : 24_GiB));
        if (rank.device == 1) CHECK(stage.layer_count < 46 / 2);
    }
}

TEST_CASE("plan: the memory of any cut of any preset is the estimator's to the byte") {
    std::mt19937 random(3);
    auto const from = [&](std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
    };
    auto const topology = topology_named("4096xH100-80GB");
    for (auto const& preset : model_presets) {
        CAPTURE(preset.name);
        auto const model = *describe(*preset.config);
        PlanRequest request;
        request.estimate.batch = from(1, 40);
        request.estimate.context = 128 * from(1, 16);
        auto const choice = from(0, 4);
        if (choice == 1) request.estimate.quant = QuantScheme::int4();
        if (choice == 2) request.estimate.quant = QuantScheme::ggml(GgmlFileType::q4_k_m);
        if (choice >= 3) request.estimate.training = TrainingPlan{.recompute = static_cast<Recompute>(from(0, 2))};
        PlanSearch search(model, topology, request);
        FoundCut cut;
        cut.degrees = {.tp = from(1, std::min<std::int64_t>(6, model.config.heads)),
                       .pp = from(1, 3),
                       .dp = from(1, 3),
                       .ep = from(1, std::min<std::int64_t>(3, std::max<std::int64_t>(1, model.config.experts)))};
        cut.degrees.micro_batches = from(1, rank_batch(request.estimate.batch, cut.degrees));
        if (request.estimate.training) cut.degrees.zero = static_cast<std::int32_t>(from(0, 3));
        cut.begins.push_back(0);
        for (std::int64_t stage = 1; stage < cut.degrees.pp; ++stage)
            cut.begins.push_back(cut.begins.back() +
                                 from(1, (search.slots().size() - cut.begins.back()) / (cut.degrees.pp + 1 - stage)));
        cut.begins.push_back(search.slots().size());
        auto const ranks = search.ranks_of(cut);
        auto const estimate =
            estimate_memory(model, rank_request(request.estimate, cut.degrees), {cut.begins.data(), cut.begins.size()});
        REQUIRE(estimate);
        REQUIRE(ranks.size() == estimate->devices.size());
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            auto const& device = estimate->devices[i];
            auto const same =
                std::find_if(ranks.begin(), ranks.end(), [&](auto const& rank) { return rank.place == device.place; });
            REQUIRE(same != ranks.end());
            CHECK(same->terms == device.terms);
        }
    }
}

TEST_SUITE("timing") {
    // The facts ask for 100 ms of an optimised program on a machine of its own, which this is not.
    TEST_CASE("plan: 1,024 devices take no more than ten seconds, without optimisation and under load") {
        constexpr std::string_view cluster = "128x(8xH100-80GB)";
        CHECK(milliseconds_of(presets::llama_3_1_405b, cluster, {.estimate = {.batch = 64}}) <= 10'000);
        CHECK(milliseconds_of(presets::deepseek_v3, cluster, {.estimate = {.batch = 1024}}) <= 10'000);
        CHECK(milliseconds_of(presets::llama_3_70b, cluster,
                              {.estimate = {.batch = 512, .training = TrainingPlan{.recompute = Recompute::full}}}) <=
              10'000);
    }
}
