// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/cost_model.hpp>
#include <shardwise/hardware/presets.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

/// Equal but for rounding, however small: seconds are.
doctest::Approx near(double value) {
    return doctest::Approx(value).scale(0.0);
}

/// The weights and parameters of all blocks of a program on one rank.
struct Sum {
    double bytes = 0.0;
    double parameters = 0.0;
};

Sum sum_of(Model const& model, EstimateRequest const& asked) {
    auto const request = as_published(asked, model.config);
    auto const weights = body_weights(model, find_parts(model, depends_on_layer(request)), request);
    Sum sum;
    for (auto const& block : model.program.blocks()) {
        auto const& body = weights[static_cast<std::size_t>(block.body)];
        sum.bytes += block.count * (body.dense + body.experts + body.tables);
        sum.parameters += block.count * (body.trained_dense() + body.expert_parameters);
    }
    return sum;
}

Device device(std::string_view name) {
    return *find_device_preset(name);
}

}  // namespace

TEST_CASE("body weights: blocks together read what the estimator holds, whatever packs it") {
    for (auto const* config :
         {&presets::llama_3_8b, &presets::mixtral_8x7b, &presets::deepseek_v3, &presets::gpt_oss_20b}) {
        auto const model = *describe(*config);
        CHECK(sum_of(model, {}).bytes == static_cast<double>(estimate_memory(model)->terms.weights.count()));
        CHECK(sum_of(model, {}).parameters == static_cast<double>(count_parameters(model.tree)));
    }
    auto const model = *describe(presets::llama_3_8b);
    for (auto const* name : {"int4", "Q4_K_M", "fp8"}) {
        EstimateRequest request;
        request.quant = *parse_quant_scheme(name);
        auto const held = static_cast<double>(estimate_memory(model, request)->terms.weights.count());
        CHECK(sum_of(model, request).bytes == near(held).epsilon(1e-12));
    }
}

TEST_CASE("body weights: a rank reads its share, as the estimator shards it") {
    EstimateRequest request;
    request.parallel.tp = 8;
    auto const dense = *describe(presets::llama_3_70b);
    CHECK(sum_of(dense, request).bytes ==
          static_cast<double>(estimate_memory(dense, request)->devices.front().terms.weights.count()));
    request.parallel = {.tp = 2, .ep = 4};
    auto const mixture = *describe(presets::qwen3_30b_a3b);
    CHECK(sum_of(mixture, request).bytes ==
          static_cast<double>(estimate_memory(mixture, request)->devices.front().terms.weights.count()));
}

TEST_CASE("body weights: a tied head reads the table and trains nothing") {
    auto const model = *describe(presets::gemma_2b);
    auto const table = 256000.0 * 2048.0;
    CHECK(sum_of(model, {}).bytes == static_cast<double>(estimate_memory(model)->terms.weights.count()) + 2.0 * table);
    CHECK(sum_of(model, {}).parameters == static_cast<double>(count_parameters(model.tree)));
}

TEST_CASE("cost model: asked again, it answers the same from what it keeps") {
    auto const model = *describe(presets::llama_3_8b);
    CostModel costs(model, {.context = 1024});
    auto const h100 = device("H100-80GB");
    BlockSetting const setting{.pass = Pass::decode, .batch = 4};
    auto const first = costs.bodies(setting, h100)[1].terms.total();
    auto const slower = costs.bodies(setting, device("L4"))[1].terms.total();
    CHECK(costs.bodies(setting, h100)[1].terms.total() == first);
    CHECK(slower > first);
    auto copy = costs;
    CHECK(copy.bodies(setting, h100)[1].terms.total() == first);
    CHECK(costs.bodies({.pass = Pass::prefill, .batch = 4}, h100)[1].terms.total() > first);
    CHECK(costs.layers() == 32);
}

TEST_CASE("cost model: a decoded token reads all weights, its cache, and little else") {
    auto const model = *describe(presets::llama_2_7b);
    Efficiency perfect;
    perfect.memory = perfect.vectors = 1.0;
    perfect.unhidden = 0.0;
    auto const a100 = device("A100-80GB");
    CostModel costs(model, {.context = 4096}, perfect);
    double seconds = 0.0;
    for (auto const& block : model.program.blocks())
        seconds +=
            block.count * costs.bodies({.pass = Pass::decode}, a100)[static_cast<std::size_t>(block.body)].terms.memory;
    auto const weights = 2.0 * (6738415616.0 - 32000.0 * 4096.0);
    auto const cache = 4095.0 * 524288.0;
    CHECK(seconds * a100.bandwidth == near(weights + cache).epsilon(0.005));
}

TEST_CASE("cost model: more sequences take longer, but each takes less") {
    auto const model = *describe(presets::qwen3_30b_a3b);
    CostModel costs(model, {.context = 2048});
    auto const h100 = device("H100-80GB");
    for (auto const pass : {Pass::prefill, Pass::decode}) {
        double before = 0.0;
        for (std::int64_t batch = 1; batch <= 64; batch *= 2) {
            auto const seconds = costs.bodies({.pass = pass, .batch = batch}, h100)[1].terms.total();
            CHECK(seconds > before);
            if (batch > 1) CHECK(seconds <= 2.0 * before);
            before = seconds;
        }
    }
}

TEST_CASE("cost model: fp8 multiplies eight bits where the device can, other packings sixteen") {
    auto const model = *describe(presets::llama_3_8b);
    EstimateRequest request;
    CHECK(CostModel(model, request).product_dtype() == Dtype::bf16);
    request.quant = QuantScheme::fp8();
    CHECK(CostModel(model, request).product_dtype() == Dtype::f8_e4m3);
    request.quant = QuantScheme::int4();
    CHECK(CostModel(model, request).product_dtype() == Dtype::bf16);
}
