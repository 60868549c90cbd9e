// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/training.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

TrainingShare share_of(std::int64_t parameters, std::int64_t dp, Dtype dtype = Dtype::bf16) {
    return {.parameters = parameters,
            .parameter_bytes = Bytes{parameters * bits(dtype) / 8},
            .state_bytes = Bytes{8 * parameters},
            .dtype = dtype,
            .dp = dp};
}

std::int64_t total(TrainingPlan const& plan, TrainingShare const& share) {
    auto const states = model_states(plan, share);
    return (states.weights + states.gradients + states.optimizer).count();
}

constexpr std::int64_t p = 7'500'000'000;

}  // namespace

// facts/memory.md: ZeRO paper, 7.5B parameters: 120 GB; N = 64: 31.4 / 16.6 / 1.88 GB
TEST_CASE("ZeRO convention: the paper's table for 7.5B parameters on 64 ranks") {
    TrainingPlan plan{.convention = MemoryConvention::zero};
    CHECK(total(plan, share_of(p, 64)) == 120'000'000'000);
    plan.zero = 1;
    CHECK(total(plan, share_of(p, 64)) == 4 * p + 12 * p / 64);  // 31.41 GB
    CHECK(total(plan, share_of(p, 64)) == 31'406'250'000);
    plan.zero = 2;
    CHECK(total(plan, share_of(p, 64)) == 16'640'625'000);
    plan.zero = 3;
    CHECK(total(plan, share_of(p, 64)) == 1'875'000'000);
}

TEST_CASE("ZeRO convention: stage k of N ranks is exact where N does not divide") {
    TrainingPlan plan{.zero = 3, .convention = MemoryConvention::zero};
    CHECK(total(plan, share_of(1001, 7)) == 2288);
    CHECK(total(plan, share_of(1000, 7)) == 2286);  // 16000 / 7 = 2285.7
    plan.zero = 2;
    CHECK(total(plan, share_of(1000, 7)) == 2000 + 2000);
}

// facts/memory.md: DeepSpeed's documented output for P = 2,851,598,336, L = 32,899,072 on 8 GPUs: 0.12 / 0.79 / 6.10 GB
TEST_CASE("DeepSpeed convention: the documented output of the ZeRO-3 estimator") {
    TrainingPlan plan{.zero = 3, .offload = Offload::all, .convention = MemoryConvention::deepspeed};
    auto share = share_of(2'851'598'336, 8);
    share.largest_module = 32'899'072;
    auto const gib = [&] { return static_cast<double>(total(plan, share)) / static_cast<double>(1LL << 30U); };
    CHECK(total(plan, share) == 4 * 32'899'072);
    CHECK(gib() == doctest::Approx(0.12).epsilon(0.03));
    plan.offload = Offload::optimizer;
    CHECK(total(plan, share) == 4 * 32'899'072 + 2 * 2'851'598'336 / 8);
    CHECK(gib() == doctest::Approx(0.79).epsilon(0.005));
    plan.offload = Offload::none;
    CHECK(total(plan, share) == 4 * 32'899'072 + 18 * 2'851'598'336 / 8);
    CHECK(gib() == doctest::Approx(6.10).epsilon(0.001));
}

// The same page of DeepSpeed's documentation: per CPU 71.71 GB with both offloaded, 63.74 with the optimizer, 1.47
// with none
TEST_CASE("DeepSpeed convention: the host memory of the documented output") {
    TrainingPlan plan{.zero = 3, .offload = Offload::all, .convention = MemoryConvention::deepspeed};
    auto share = share_of(2'851'598'336, 8);
    share.largest_module = 32'899'072;
    auto const gib = [&] {
        return static_cast<double>(model_states(plan, share).host.count()) / static_cast<double>(1LL << 30U);
    };
    CHECK(gib() == doctest::Approx(71.71).epsilon(0.0001));
    plan.offload = Offload::optimizer;
    CHECK(gib() == doctest::Approx(63.74).epsilon(0.0001));
    plan.offload = Offload::none;
    CHECK(gib() == doctest::Approx(1.47).epsilon(0.001));
}

// facts/memory.md: "ZeRO-2 GPU 2P with offload, 2P + 18P/N without"
TEST_CASE("DeepSpeed convention: stage 2") {
    TrainingPlan plan{.zero = 2, .convention = MemoryConvention::deepspeed};
    CHECK(total(plan, share_of(1'000'000'000, 16)) == 2'000'000'000 + 18'000'000'000 / 16);
    plan.offload = Offload::optimizer;
    CHECK(total(plan, share_of(1'000'000'000, 16)) == 2'000'000'000);
}

// facts/memory.md: Megatron, distributed optimizer: bf16 6 + 12/d (18), fp16 4 + 16/d (20), fp32 8 + 8/d (16)
TEST_CASE("Megatron convention: bytes per parameter") {
    TrainingPlan plan{.convention = MemoryConvention::megatron};
    CHECK(total(plan, share_of(p, 8)) == 18 * p);
    CHECK(total(plan, share_of(p, 8, Dtype::f16)) == 20 * p);
    CHECK(total(plan, share_of(p, 8, Dtype::f32)) == 16 * p);
    plan.zero = 1;
    CHECK(total(plan, share_of(p, 8)) == 6 * p + 12 * p / 8);
    CHECK(total(plan, share_of(p, 8, Dtype::f16)) == 4 * p + 16 * p / 8);
    CHECK(total(plan, share_of(p, 8, Dtype::f32)) == 8 * p + 8 * p / 8);
}

// facts/memory.md: GPT-3 (s 2048, b 1, h 12288, a 96): 2.869 GB; t = 8: 0.579 / 0.359 / 0.107 GB
TEST_CASE("Megatron convention: activations of one GPT-3 layer") {
    CHECK(megatron_activations(2048, 1, 12288, 96, 1, false, Recompute::none) == Bytes{2'868'903'936});
    CHECK(megatron_activations(2048, 1, 12288, 96, 8, false, Recompute::none) == Bytes{578'813'952});
    CHECK(megatron_activations(2048, 1, 12288, 96, 8, true, Recompute::none) == Bytes{358'612'992});
    CHECK(megatron_activations(2048, 1, 12288, 96, 8, true, Recompute::selective) == Bytes{106'954'752});
    CHECK(megatron_activations(2048, 1, 12288, 96, 8, true, Recompute::full) == Bytes{2LL * 2048 * 12288});
    CHECK(megatron_activations(2048, 1, 12288, 96, 1, false, Recompute::selective) == Bytes{34LL * 2048 * 12288});
}

TEST_CASE("Megatron convention: scores that no memory could hold do not overflow") {
    CHECK(megatron_activations(std::int64_t{1} << 33U, 1, 128, 96, 1, false, Recompute::none).count() >=
          std::int64_t{1} << 50U);
}

TEST_CASE("our convention: mixed Adam takes 16 bytes per parameter, pure fp32 Adam too") {
    TrainingPlan const plan{};
    auto const mixed = model_states(plan, share_of(p, 1));
    CHECK(mixed.weights == Bytes{2 * p});
    CHECK(mixed.gradients == Bytes{2 * p});
    CHECK(mixed.optimizer == Bytes{12 * p});
    auto const pure = model_states(plan, share_of(p, 1, Dtype::f32));
    CHECK(pure.weights == Bytes{4 * p});
    CHECK(pure.gradients == Bytes{4 * p});
    CHECK(pure.optimizer == Bytes{8 * p});
    CHECK(pure.communication == 0_B);
}

TEST_CASE("our convention: each stage of ZeRO shards one more kind of state, buffers stay whole") {
    auto share = share_of(6400, 64);
    share.buffer_bytes = 100_B;
    share.largest_part = 50_B;
    auto const stage = [&](std::int32_t zero) { return model_states({.zero = zero}, share); };
    CHECK(stage(0).optimizer == Bytes{12 * 6400});
    CHECK(stage(1).optimizer == Bytes{12 * 100});
    CHECK(stage(1).gradients == Bytes{2 * 6400});
    CHECK(stage(2).gradients == Bytes{2 * 100});
    CHECK(stage(2).weights == Bytes{2 * 6400 + 100});
    CHECK(stage(3).weights == Bytes{2 * 100 + 100});
    CHECK(stage(3).communication == stage(2).communication + 100_B);  // the layer at work and the next
}

TEST_CASE("our convention: offloaded states move to the host, not away") {
    auto share = share_of(1'000'000, 4);
    share.largest_part = 100'000_B;
    auto const kept = model_states({.zero = 3}, share);
    auto const optimizer = model_states({.zero = 3, .offload = Offload::optimizer}, share);
    CHECK(optimizer.optimizer == 0_B);
    CHECK(optimizer.host == kept.optimizer);
    CHECK(optimizer.weights == kept.weights);
    auto const all = model_states({.zero = 3, .offload = Offload::all}, share);
    CHECK(all.host == kept.optimizer + kept.weights + kept.gradients);
    CHECK(all.weights == 200'000_B);
    CHECK(all.gradients == 100'000_B);
}

// bitsandbytes 0.45: two states of a byte, an fp32 maximum per 256 elements each; below 4096 elements 32 bits
TEST_CASE("optimizer states: Adam 8, SGD 4, 8-bit Adam about 2 bytes per parameter") {
    CHECK(optimizer_state_bytes(OptimizerKind::adam, 1'000'000) == 8'000'000);
    CHECK(optimizer_state_bytes(OptimizerKind::sgd, 1'000'000) == 4'000'000);
    CHECK(optimizer_state_bytes(OptimizerKind::adam8bit, 256'000) == 2 * 256'000 + 2 * 4 * 1000);
    CHECK(optimizer_state_bytes(OptimizerKind::adam8bit, 256'001) == 2 * 256'001 + 2 * 4 * 1001);
    CHECK(optimizer_state_bytes(OptimizerKind::adam8bit, 4095) == 8 * 4095);
}

TEST_CASE("training: plans that a convention has no number for are refused, and the message names what is legal") {
    auto const refused = [](TrainingPlan const& plan, EstimateRequest const& request = {}) {
        auto const checked = check_training(plan, request, Dtype::bf16);
        return checked ? std::string{} : checked.error().message();
    };
    CHECK(refused({.zero = 3}).empty());
    CHECK(refused({.zero = 4}) == "zero: is no stage of ZeRO (got 4); stages are 0, 1, 2 and 3");
    CHECK(refused({.zero = 1, .convention = MemoryConvention::deepspeed}).find("stage 2 or 3") != std::string::npos);
    CHECK(refused({.zero = 2, .offload = Offload::all, .convention = MemoryConvention::deepspeed}).find("stage 3") !=
          std::string::npos);
    CHECK(refused({.zero = 2, .convention = MemoryConvention::megatron}).find("stage 0 or 1") != std::string::npos);
    CHECK(refused({.optimizer = OptimizerKind::sgd, .convention = MemoryConvention::megatron}).find("adam") !=
          std::string::npos);
    CHECK(refused({.offload = Offload::all, .convention = MemoryConvention::zero}).find("deepspeed") !=
          std::string::npos);
    CHECK(refused({}, {.quant = QuantScheme::nf4()}).find("packed weights are not trained") != std::string::npos);
}
