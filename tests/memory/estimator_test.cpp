// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include <array>
#include <string>

using namespace shardwise;

namespace {

MemoryEstimate estimate_of(ModelConfig const& config, EstimateRequest const& request = {}) {
    auto const model = describe(config);
    REQUIRE(model);
    auto estimate = estimate_memory(*model, request);
    REQUIRE(estimate);
    return *estimate;
}

/// T5-3B as DeepSpeed's documentation estimates it.
ModelConfig t5_3b() {
    auto config = presets::t5_large;
    config.intermediate_size = 16384;
    config.heads = 32;
    config.head_dim = 128;
    return config;
}

double gib(Bytes bytes) {
    return static_cast<double>(bytes.count()) / static_cast<double>(1LL << 30U);
}

}  // namespace

TEST_CASE("estimate: weights and cache of Llama-3-8B are exact, the total is the sum of its terms") {
    auto const e = estimate_of(presets::llama_3_8b, {.context = 8192});
    CHECK(e.parameters == 8030261248);
    CHECK(e.terms.weights == Bytes{2 * 8030261248});
    CHECK(e.terms.kv_cache == Bytes{8192LL * 131072});
    CHECK(e.kv_bytes_per_token == Bytes{131072});
    CHECK(e.terms.gradients == 0_B);
    CHECK(e.terms.optimizer == 0_B);
    CHECK(e.terms.overhead == 512_MiB);
    CHECK(e.total == e.terms.weights + e.terms.kv_cache + e.terms.activations + e.terms.overhead);
    REQUIRE(e.devices.size() == 1);
    CHECK(e.devices[0].total() == e.total);
}

TEST_CASE("estimate: of every preset, modules and devices add up to what the tensors take, ties once") {
    for (auto const& preset : model_presets) {
        CAPTURE(preset.name);
        auto const model = *describe(*preset.config);
        EstimateRequest plain;
        // What is published packed is compared with its tensors unpacked; published_presets_test.cpp has it packed.
        if (model.config.quant) plain.dtype = model.config.dtype;
        auto const e = *estimate_memory(model, plain);
        auto const stored = sum_tensors(model.tree, [](Tensor const& tensor) {
            return tensor.kind == TensorKind::transient_buffer ? std::int64_t{0} : tensor.bytes().count();
        });
        Bytes modules{};
        Bytes cache{};
        Bytes peak{};
        for (auto const& module : e.modules) {
            modules += module.count * module.weights;
            cache += module.count * module.kv_cache;
            if (peak < module.activations) peak = module.activations;
            CHECK(module.weights >= 0_B);
        }
        CHECK(e.terms.weights.count() == stored);
        CHECK(modules == e.terms.weights);
        CHECK(cache == e.terms.kv_cache);
        CHECK(peak <= e.terms.activations);
        CHECK(e.active_parameters <= e.parameters);
    }
}

TEST_CASE("estimate: DeepSeek-V3's router biases count, they are buffers that checkpoints store") {
    auto const e = estimate_of(presets::deepseek_v3, {.dtype = Dtype::bf16});
    CHECK(e.parameters == 671026404352);
    CHECK(e.terms.weights == Bytes{2 * (671026404352 + 14848)});
}

TEST_CASE("estimate: tensor-parallel ranks add up to the model and its replicated norms") {
    auto const e = estimate_of(presets::llama_3_8b, {.parallel = {.tp = 8}});
    REQUIRE(e.devices.size() == 8);
    CHECK(e.terms.weights == Bytes{2 * (8030261248 + 7 * 65 * 4096)});
    CHECK(e.terms.kv_cache == Bytes{4096LL * 131072});
    for (std::int64_t rank = 0; rank < 8; ++rank) {
        auto const& device = e.devices[static_cast<std::size_t>(rank)];
        CHECK(device.place == RankPlace{.tp = rank});
        CHECK(device.terms.weights == e.devices[0].terms.weights);
        CHECK(device.communication > 0_B);
        CHECK(device.terms.overhead == 512_MiB + device.communication);
    }
}

TEST_CASE("estimate: pipeline stages hold contiguous layers, embedding first, norm and head last") {
    auto const e = estimate_of(presets::llama_3_8b, {.parallel = {.pp = 4}});
    REQUIRE(e.devices.size() == 4);
    CHECK(e.terms.weights == Bytes{2 * 8030261248});
    std::int64_t next = 0;
    for (auto const& device : e.devices) {
        CHECK(device.first_layer == next);
        CHECK(device.layer_count >= 1);
        next += device.layer_count;
        CHECK(device.terms.kv_cache == Bytes{device.layer_count * 4096 * 4096});
    }
    CHECK(next == 32);
    auto const layer = 2LL * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336 + 2 * 4096);
    auto const table = 2LL * 128256 * 4096;
    CHECK(e.devices[0].terms.weights == Bytes{e.devices[0].layer_count * layer + table});
    CHECK(e.devices[3].terms.weights == Bytes{e.devices[3].layer_count * layer + table + 2 * 4096});
    CHECK(e.devices[1].terms.weights == Bytes{e.devices[1].layer_count * layer});
    // Only the last stage has logits, so that decoding takes least where they are not.
    CHECK(e.devices[3].phases.decode > e.devices[1].phases.decode);
}

TEST_CASE("estimate: a tied head is copied where it is on another stage, and that is said") {
    auto const one = estimate_of(presets::gemma_2b);
    auto const two = estimate_of(presets::gemma_2b, {.parallel = {.pp = 2}});
    CHECK(two.terms.weights == one.terms.weights + Bytes{2LL * 256000 * 2048});
    CHECK_FALSE(one.has(Assumption::tied_tensor_copied));
    CHECK(two.has(Assumption::tied_tensor_copied));
    CHECK(is_warning(Assumption::tied_tensor_copied));
}

TEST_CASE("estimate: expert-parallel ranks shard the experts") {
    auto const e = estimate_of(presets::mixtral_8x7b, {.parallel = {.ep = 4}});
    std::int64_t const experts = 32LL * 8 * 3 * 4096 * 14336;
    REQUIRE(e.devices.size() == 4);
    for (auto const& device : e.devices)
        CHECK(device.terms.weights == Bytes{2 * (46702792704 - experts + experts / 4)});
    CHECK(e.has(Assumption::replicated_over_expert_ranks));
}

TEST_CASE(
    "estimate: data-parallel replicas are listed with their coordinates, tensor-parallel ranks next to each other") {
    auto const e = estimate_of(presets::llama_3_8b, {.parallel = {.tp = 2, .pp = 2, .dp = 3}});
    REQUIRE(e.devices.size() == 12);
    CHECK(e.devices[1].place == RankPlace{.tp = 1});
    CHECK(e.devices[2].place == RankPlace{.dp = 1});
    CHECK(e.devices[6].place == RankPlace{.pp = 1});
    CHECK(e.devices[11].place == RankPlace{.tp = 1, .pp = 1, .dp = 2});
    CHECK(e.terms.kv_cache == Bytes{3LL * 4096 * 131072});
}

TEST_CASE("estimate: heads that do not divide are sharded unevenly, and nothing is lost") {
    auto const e = estimate_of(presets::llama_3_8b, {.parallel = {.tp = 5}});
    CHECK(e.has(Assumption::uneven_tensor_split));
    CHECK(e.devices[0].terms.weights > e.devices[4].terms.weights);
    CHECK(e.terms.weights >= Bytes{2 * 8030261248});
}

TEST_CASE("estimate: the largest device is the one that decides") {
    auto const e = estimate_of(presets::llama_3_70b, {.parallel = {.pp = 3}});
    for (auto const& device : e.devices) CHECK(device.total() <= e.largest_device().total());
}

// facts/memory.md, ZeRO paper: P/N bytes per rank whatever the model
TEST_CASE("estimate: the ZeRO paper's convention counts model states only") {
    TrainingPlan const plan{.zero = 2, .convention = MemoryConvention::zero};
    auto const e = estimate_of(presets::llama_2_7b, {.parallel = {.dp = 64}, .training = plan});
    std::int64_t const p = 6738415616;
    REQUIRE(e.devices.size() == 64);
    CHECK(e.devices[63].total() == Bytes{2 * p + 14 * p / 64});
    CHECK(e.terms.activations == 0_B);
    CHECK(e.terms.overhead == 0_B);
    CHECK(e.terms.kv_cache == 0_B);
    CHECK(e.has(Assumption::model_states_only));
}

// DeepSpeed's documentation, "Memory requirements": T5-3B, 2851M total params, 32M largest layer params, 8 GPUs
TEST_CASE("estimate: DeepSpeed's convention finds the documented parameters and largest layer of T5-3B") {
    TrainingPlan plan{.zero = 3, .offload = Offload::all, .convention = MemoryConvention::deepspeed};
    EstimateRequest request{.parallel = {.dp = 8}, .training = plan};
    auto const both = estimate_of(t5_3b(), request);
    CHECK(both.parameters == 2851598336);
    CHECK(both.devices[0].total() == Bytes{4 * 32899072});
    CHECK(both.host == Bytes{2851598336 * 27});  // 18 bytes and half of that again, for the node as a whole
    request.training->offload = Offload::optimizer;
    CHECK(gib(estimate_of(t5_3b(), request).devices[0].total()) == doctest::Approx(0.79).epsilon(0.005));
    request.training->offload = Offload::none;
    CHECK(gib(estimate_of(t5_3b(), request).devices[0].total()) == doctest::Approx(6.10).epsilon(0.001));
}

TEST_CASE("estimate: the convention of Megatron's paper for GPT-3's shape, eight tensor-parallel ranks") {
    auto config = presets::gpt2;
    config.hidden_size = 12288;
    config.heads = 96;
    config.kv_heads = 0;
    config.head_dim = 0;
    config.intermediate_size = 4 * 12288;
    config.layers = 4;
    config.max_positions = 2048;
    config.dtype = Dtype::bf16;
    EstimateRequest request{.context = 2048,
                            .parallel = {.tp = 8, .sequence_parallel = true},
                            .training = TrainingPlan{.convention = MemoryConvention::megatron_paper}};
    CHECK(estimate_of(config, request).devices[7].terms.activations == Bytes{4 * 358'612'992LL});
    request.training->recompute = Recompute::selective;
    CHECK(estimate_of(config, request).devices[7].terms.activations == Bytes{4 * 106'954'752LL});
    request.parallel = {.pp = 4};
    request.training->recompute = Recompute::none;
    auto const staged = estimate_of(config, request);
    // One forward, one backward: the first of four stages has four micro-batches of its one layer.
    CHECK(staged.devices[0].terms.activations == Bytes{4 * 2'868'903'936LL});
    CHECK(staged.devices[3].terms.activations == Bytes{2'868'903'936LL});
    CHECK(staged.devices[1].total() == staged.devices[1].terms.activations + Bytes{18 * staged.devices[1].parameters});
}

TEST_CASE("estimate: our training takes 16 bytes per parameter, activations and logits of every token") {
    EstimateRequest request{.batch = 2, .context = 512, .training = TrainingPlan{}};
    auto const e = estimate_of(presets::llama_3_2_1b, request);
    CHECK(e.terms.weights + e.terms.gradients + e.terms.optimizer == Bytes{16 * 1235814400LL});
    CHECK(e.terms.kv_cache == 0_B);
    CHECK(e.terms.activations > Bytes{2LL * 512 * 128256 * 4});
    auto const with = [&](Recompute recompute) {
        request.training->recompute = recompute;
        return estimate_of(presets::llama_3_2_1b, request).terms.activations;
    };
    CHECK(with(Recompute::none) > with(Recompute::selective));
    CHECK(with(Recompute::selective) > with(Recompute::full));
}

TEST_CASE("estimate: in training the modules' states add up to those of one rank, in every convention") {
    for (auto const convention :
         {MemoryConvention::shardwise, MemoryConvention::zero, MemoryConvention::megatron_paper}) {
        for (auto const* config : {&presets::gemma_2b, &presets::deepseek_v2_lite, &presets::t5_small}) {
            EstimateRequest const request{
                .dtype = Dtype::bf16,
                .context = 128,
                .training = TrainingPlan{.optimizer = OptimizerKind::adam, .convention = convention}};
            auto const e = estimate_of(*config, request);
            MemoryTerms sum{};
            for (auto const& module : e.modules) {
                sum.weights += module.count * module.weights;
                sum.gradients += module.count * module.gradients;
                sum.optimizer += module.count * module.optimizer;
            }
            CHECK(sum.weights == e.terms.weights);
            CHECK(sum.gradients == e.terms.gradients);
            CHECK(sum.optimizer == e.terms.optimizer);
        }
    }
}

TEST_CASE("estimate: each stage of ZeRO takes no more memory than the one before") {
    EstimateRequest request{.context = 512, .parallel = {.dp = 8}, .training = TrainingPlan{}};
    auto last = Bytes{INT64_MAX};
    for (std::int32_t zero = 0; zero <= 3; ++zero) {
        request.training->zero = zero;
        auto const now = estimate_of(presets::llama_2_7b, request).devices[0].total();
        CHECK(now < last);
        last = now;
    }
    request.training->offload = Offload::all;
    auto const offloaded = estimate_of(presets::llama_2_7b, request);
    CHECK(offloaded.devices[0].total() < last);
    CHECK(offloaded.host > 0_B);
}

TEST_CASE("estimate: a context beyond the model's maximum is a warning") {
    auto const e = estimate_of(presets::llama_2_7b, {.context = 8192});
    CHECK(e.has(Assumption::context_beyond_model));
    CHECK(is_warning(Assumption::context_beyond_model));
    CHECK_FALSE(e.has(Assumption::context_not_given));
    CHECK(estimate_of(presets::llama_2_7b).has(Assumption::context_not_given));
}

TEST_CASE("estimate: a tree without a program has weights, and a warning that nothing else is known") {
    Model model;
    auto const leaf = model.tree.add("Linear", {Tensor{.name = "weight", .shape = {100, 50}, .dtype = Dtype::bf16}});
    model.tree.set_root(model.tree.add("Unknown", {}, {{"a", leaf}, {"b", leaf}}));
    model.tree.tie("a.weight", "b.weight");
    auto const e = estimate_memory(model);
    REQUIRE(e);
    CHECK(e->terms.weights == Bytes{100 * 50 * 2});
    CHECK(e->terms.kv_cache == 0_B);
    CHECK(e->has(Assumption::unknown_program));
    CHECK(is_warning(Assumption::unknown_program));
    CHECK_FALSE(estimate_memory(model, {.parallel = {.pp = 2}}));
    CHECK(estimate_memory(Model{})->terms.weights == 0_B);
}

TEST_CASE("estimate: more context or batch never takes less, and ranks never hold less than the model together") {
    for (auto const* config : {&presets::llama_3_8b, &presets::qwen3_30b_a3b, &presets::gemma_3_4b,
                               &presets::deepseek_v2_lite, &presets::t5_small, &presets::falcon_7b}) {
        CAPTURE(config->model_type.view());
        Bytes last{};
        for (std::int64_t context = 1; context <= 4096; context *= 4) {
            auto const now = estimate_of(*config, {.context = context});
            CHECK(now.total > last);
            last = now.total;
            CHECK(estimate_of(*config, {.batch = 2, .context = context}).total > now.total);
        }
        auto const one = estimate_of(*config, {.context = 256});
        for (std::int64_t tp = 2; tp <= 5; ++tp) {
            for (std::int64_t pp = 1; pp <= 3; ++pp) {
                auto const many = estimate_of(*config, {.context = 256, .parallel = {.tp = tp, .pp = pp}});
                CHECK(many.devices.size() == static_cast<std::size_t>(tp * pp));
                CHECK(many.terms.weights >= one.terms.weights);
                CHECK(many.terms.kv_cache >= one.terms.kv_cache);
                for (auto const& device : many.devices) {
                    CHECK(device.terms.weights < one.terms.weights);
                    CHECK(device.terms.activations <= one.terms.activations);
                    CHECK(device.terms.kv_cache >= 0_B);
                }
            }
        }
    }
}

TEST_CASE("estimate: a mixture by layer is priced layer by layer and adds up") {
    auto const e = estimate_of(presets::llama_3_1_8b, {.quant = *parse_quant_scheme("Q4_K_M")});
    // The published file of this model has 4.92 GB with its tokenizer's metadata (bartowski, Meta-Llama-3.1-8B Q4_K_M).
    CHECK(static_cast<double>(e.terms.weights.count()) / 1e9 == doctest::Approx(4.92).epsilon(0.003));
    CHECK(e.modules.size() > 32);
    Bytes sum{};
    for (auto const& module : e.modules) sum += module.count * module.weights;
    CHECK(sum == e.terms.weights);
}

TEST_CASE("estimate: every assumption has a sentence") {
    for (int i = 0; i <= static_cast<int>(Assumption::batch_per_replica); ++i) {
        CHECK_FALSE(text_of(static_cast<Assumption>(i)).empty());
    }
}

TEST_CASE("estimate: impossible requests are errors that name what is legal") {
    auto const model = *describe(presets::llama_2_7b);
    auto const e = estimate_memory(model, {.parallel = {.tp = 64}});
    REQUIRE_FALSE(e);
    CHECK(e.error().code() == ErrorCode::invalid_argument);
    CHECK_FALSE(estimate_memory(model, {.parallel = {.pp = 33}}));
}

TEST_CASE("MemoryEstimator: an architecture's estimate is that of its described model") {
    auto const face = MemoryEstimator<Llama>::estimate(presets::llama_3_8b, {.context = 100});
    REQUIRE(face);
    CHECK(face->total == estimate_of(presets::llama_3_8b, {.context = 100}).total);
    CHECK(MemoryEstimator<Llama>::name == "llama");
    auto broken = presets::llama_3_8b;
    broken.heads = 0;
    CHECK_FALSE(MemoryEstimator<Llama>::estimate(broken));
}

TEST_CASE("estimate: stages may be given; each holds its layers, and bounds that leave one out are refused") {
    auto const model = *describe(presets::llama_3_8b);
    std::array<std::int64_t, 3> const begins{0, 20, 32};
    EstimateRequest const request{.parallel = {.pp = 2}};
    auto const given = *estimate_memory(model, request, begins);
    CHECK(given.devices[0].layer_count == 20);
    CHECK(given.devices[1].first_layer == 20);
    // 20 layers of 218,112,000 elements and the embedding of 128256 x 4096.
    CHECK(given.devices[0].terms.weights == Bytes{2 * (20LL * 218112000 + 128256LL * 4096)});
    auto const even = *estimate_memory(model, request);
    std::array<std::int64_t, 3> const same{0, even.devices[0].layer_count, 32};
    CHECK(estimate_memory(model, request, same)->devices[1].terms == even.devices[1].terms);
    for (auto const& wrong : {std::array<std::int64_t, 3>{0, 20, 31}, std::array<std::int64_t, 3>{0, 32, 32},
                              std::array<std::int64_t, 3>{1, 20, 32}}) {
        auto const refused = estimate_memory(model, request, wrong);
        REQUIRE(!refused);
        CHECK(refused.error().code() == ErrorCode::invalid_argument);
    }
    CHECK(!estimate_memory(model, {.parallel = {.pp = 3}}, begins));
}

TEST_CASE("estimate: a batch in micro-batches has the cache of the whole and the activations of one") {
    auto const whole = estimate_of(presets::llama_3_8b, {.batch = 8, .parallel = {.pp = 2}});
    auto const micro_batch = estimate_of(presets::llama_3_8b, {.batch = 3, .parallel = {.pp = 2}});
    auto const cut = estimate_of(presets::llama_3_8b, {.batch = 8, .parallel = {.pp = 2}, .micro_batches = 3});
    for (std::size_t i = 0; i < 2; ++i) {
        CHECK(cut.devices[i].terms.kv_cache == whole.devices[i].terms.kv_cache);
        CHECK(cut.devices[i].terms.activations == micro_batch.devices[i].terms.activations);
        CHECK(cut.devices[i].communication == micro_batch.devices[i].communication);
    }
}

TEST_CASE("estimate: in training no stage keeps more micro-batches than there are") {
    EstimateRequest request{.context = 1024, .parallel = {.pp = 4}, .training = TrainingPlan{}};
    auto const full = estimate_of(presets::llama_3_8b, request);
    request.batch = 4;
    request.micro_batches = 4;
    auto const four = estimate_of(presets::llama_3_8b, request);
    request.batch = 1;
    request.micro_batches = 1;
    auto const one = estimate_of(presets::llama_3_8b, request);
    for (std::size_t i = 0; i < 4; ++i) CHECK(four.devices[i].terms == full.devices[i].terms);
    CHECK(one.devices[0].terms.activations < full.devices[0].terms.activations);
    CHECK(one.devices[3].terms == full.devices[3].terms);
    request.micro_batches = 2;
    CHECK(!estimate_memory(*describe(presets::llama_3_8b), request));
}
