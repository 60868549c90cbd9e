// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

using namespace shardwise;

namespace {

Model model_named(std::string_view name) {
    if (name == "llama-2-7b") return describe(presets::llama_2_7b).value();
    if (name == "llama-3-8b") return describe(presets::llama_3_8b).value();
    if (name == "llama-3-70b") return describe(presets::llama_3_70b).value();
    return describe(presets::mistral_7b).value();
}

constexpr TrainingPlan report{.recompute = Recompute::selective, .convention = MemoryConvention::megatron};

}  // namespace

TEST_CASE("Megatron-LM's report: 288 numbers of four models over tp, pp, dp and zero, to rounding") {
    std::ifstream file(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/megatron_report.tsv");
    std::string line;
    int numbers = 0;
    while (std::getline(file, line)) {
        if (line[0] == '#' || line.rfind("model\t", 0) == 0) continue;
        CAPTURE(line);
        std::istringstream words(line);
        std::string name;
        Parallelism parallel;
        std::int32_t zero = 0;
        double states = 0.0;
        double selective = 0.0;
        double plain = 0.0;
        words >> name >> parallel.tp >> parallel.pp >> parallel.dp >> zero >> states >> selective >> plain;
        REQUIRE(static_cast<bool>(words));
        parallel.sequence_parallel = true;
        EstimateRequest request{.dtype = Dtype::bf16,
                                .batch = 4,
                                .context = 4096,
                                .parallel = parallel,
                                .training = report,
                                .micro_batches = 4};
        request.training->zero = zero;
        auto const model = model_named(name);
        auto const estimate = estimate_memory(model, request).value();
        Bytes max_states{};
        Bytes max_kept{};
        for (auto const& device : estimate.devices) {
            auto const own = device.terms.weights + device.terms.gradients + device.terms.optimizer;
            if (max_states < own) max_states = own;
            if (max_kept < device.terms.activations) max_kept = device.terms.activations;
            CHECK(device.layer_count * parallel.pp == model.config.layers);
            CHECK(device.terms.overhead == 0_B);
        }
        // Parameters are rounded to one, at 18 bytes.
        CHECK(std::abs(static_cast<double>(max_states.count()) - states) <= 18.0);
        CHECK(std::abs(static_cast<double>(max_kept.count()) - selective) <= 1.0);
        numbers += 2;
        request.training->recompute = Recompute::none;
        auto const kept = estimate_memory(model, request).value().devices[0].terms.activations;
        CHECK(std::abs(static_cast<double>(kept.count()) - plain) <= 1.0);
    }
    CHECK(numbers == 288);
}

TEST_CASE("Megatron-LM's report: llama 3 8B on one device keeps 19,365,134,336 bytes") {
    auto const model = describe(presets::llama_3_8b).value();
    auto const estimate = estimate_memory(model, {.context = 4096,
                                                  .parallel = {.sequence_parallel = true},
                                                  .training = report})
                              .value();
    CHECK(estimate.terms.activations == Bytes{19'365'134'336});
    CHECK(estimate.has(Assumption::megatron_report));
    for (auto const& module : estimate.modules) {
        if (module.role == ModuleRole::layer) CHECK(module.activations == Bytes{32LL * 4096 * 4096});
    }
}

TEST_CASE("Megatron-LM's report: a router is on every rank, experts are sharded; latent attention has its own matrices") {
    auto const mixtral = describe(presets::mixtral_8x7b).value();
    CHECK(MegatronReport(mixtral).parameters(32, 0, {}) == 46'702'792'704);
    // DeepSeek-V2-Lite: the tree's parameters.
    auto const latent = describe(presets::deepseek_v2_lite).value();
    CHECK(MegatronReport(latent).parameters(latent.config.layers, 0, {}) == count_parameters(latent.tree));
}

TEST_CASE("Megatron-LM's report: layers that stages do not divide go to the first ones") {
    auto const begins = MegatronReport::stages(10, 4);
    CHECK(begins == List<std::int64_t>{0, 3, 6, 8, 10});
}

TEST_CASE("Megatron-LM's report: encoders, encoder-decoders and expert-parallel ranks are refused by name") {
    auto const refused = [](ModelConfig const& config, Parallelism const& parallel = {}) {
        auto const model = describe(config).value();
        auto const estimate = estimate_memory(model, {.dtype = Dtype::bf16, .context = 128, .parallel = parallel, .training = report});
        return estimate ? std::string{} : estimate.error().message();
    };
    CHECK(refused(presets::t5_small).find("decoders only") != std::string::npos);
    CHECK(refused(presets::bert_base).find("decoders only") != std::string::npos);
    CHECK(refused(presets::qwen3_next_80b_a3b).find("of attentions and MLPs") != std::string::npos);
    CHECK(refused(presets::mixtral_8x7b, {.ep = 2}).find("shards experts in a way of its own") != std::string::npos);
    CHECK(refused(presets::mixtral_8x7b).empty());
}
