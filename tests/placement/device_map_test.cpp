// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/placement/balanced.hpp>
#include <shardwise/placement/custom.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/inverse.hpp>
#include <shardwise/placement/optimal.hpp>
#include <shardwise/placement/sequential.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace shardwise;

/// The published hyper-parameters of Llama-3-70B (facts/memory.md).
ModelConfig llama_3_70b() {
    ModelConfig config;
    config.model_type = "llama";
    config.dtype = Dtype::bf16;
    config.vocab_size = 128256;
    config.hidden_size = 8192;
    config.layers = 80;
    config.heads = 64;
    config.kv_heads = 8;
    config.intermediate_size = 28672;
    config.max_positions = 8192;
    return config;
}

TEST_CASE("DeviceMap: Llama-3-70B with 8k context takes 36.6 GB of weights and cache per A100-40GB") {
    // Source: facts/memory.md, "Fits or not".
    auto const model = describe(llama_3_70b());
    REQUIRE(model.has_value());
    auto const plan = DeviceMap<Optimal>{}.plan(*model, presets::four_a100_40gb, {.context = 8192});
    REQUIRE(plan.has_value());
    CHECK(plan->fits);
    Bytes largest{};
    Bytes weights{};
    Bytes cache{};
    for (auto const& use : plan->devices) {
        if (use.weights + use.kv_cache > largest) largest = use.weights + use.kv_cache;
        weights += use.weights;
        cache += use.kv_cache;
        CHECK(use.used == use.weights + use.kv_cache + use.activations + use.overhead);
        CHECK(use.used <= use.capacity);
    }
    CHECK(static_cast<double>(largest.count()) / 1e9 == doctest::Approx(36.6).epsilon(0.002));
    CHECK(weights.count() == 2 * 70'553'706'496);
    CHECK(cache.count() == 8192 * 327'680LL);
}

TEST_CASE("DeviceMap: three A100-40GB are an answer too, with the device, the shortfall and the culprit") {
    auto const model = describe(llama_3_70b());
    REQUIRE(model.has_value());
    auto const plan = DeviceMap<Optimal>{}.plan(*model, presets::three_a100_40gb, {.context = 8192});
    REQUIRE(plan.has_value());
    CHECK(!plan->fits);
    CHECK(plan->device_map.empty());
    REQUIRE(plan->shortfall.has_value());
    auto devices = presets::three_a100_40gb;
    auto& enlarged = devices[static_cast<std::size_t>(plan->shortfall->device.index)];
    enlarged.memory = enlarged.usable(default_utilization) + plan->shortfall->missing;
    enlarged.is_whole_memory = false;
    CHECK(check_fit<Sequential>(llama_3_70b(), devices, {.context = 8192}).value());
    enlarged.memory -= 1_B;
    CHECK(!check_fit<Sequential>(llama_3_70b(), devices, {.context = 8192}).value());
    REQUIRE(plan->reason.has_value());
    CHECK(plan->reason->message().find("layer ") == 0);
}

TEST_CASE("DeviceMap: every strategy finds a place where one exists") {
    auto const config = llama_3_70b();
    CHECK(check_fit<Sequential>(config, presets::four_a100_40gb, {.context = 8192}).value());
    CHECK(check_fit<Balanced>(config, presets::four_a100_40gb, {.context = 8192}).value());
    CHECK(check_fit<BalancedLow0>(config, presets::four_a100_40gb, {.context = 8192}).value());
    CHECK(check_fit<Optimal>(config, presets::four_a100_40gb, {.context = 8192}).value());
    CHECK(!check_fit<Optimal>(config, presets::four_rtx4090, {.context = 8192}).value());
}

TEST_CASE("inverse queries: the answer fits and its neighbour does not") {
    auto const model = describe(llama_3_70b());
    REQUIRE(model.has_value());
    auto const at = [&](std::int64_t context, std::int64_t batch) {
        return fits_in_memory(*model, presets::four_a100_40gb, {.batch = batch, .context = context}).value();
    };
    auto const context = longest_context(*model, presets::four_a100_40gb, {}).value();
    CHECK(context > 8192);
    CHECK(at(context, 1));
    CHECK(!at(context + 1, 1));
    auto const batch = largest_batch(*model, presets::four_a100_40gb, {.context = 4096}).value();
    CHECK(at(4096, batch));
    CHECK(!at(4096, batch + 1));
    CHECK(fewest_devices(*model, *find_device_preset("A100-40GB"), {.context = 8192}).value() == 4);
    CHECK(!fewest_devices(*model, *find_device_preset("T4"), {.context = 8192}, 4).value().has_value());
}

TEST_CASE("largest_that: finds every boundary, none and the largest") {
    for (std::int64_t limit = 0; limit < 70; ++limit) {
        CHECK(largest_that([&](std::int64_t n) { return n <= limit; }) == limit);
    }
    CHECK(largest_that([](std::int64_t) { return true; }) == largest_answer);
    CHECK(largest_that([](std::int64_t n) { return n < largest_answer; }) == largest_answer - 1);
}

TEST_CASE("Inverse questions: prompts are computed in chunks, and a share of each device's memory is used") {
    auto const model = describe(presets::llama_3_8b);
    REQUIRE(model.has_value());
    auto const& devices = presets::two_rtx4090;
    auto const is_limit = [&](EstimateRequest request, std::int64_t EstimateRequest::*member, std::int64_t most) {
        request.*member = most;
        CHECK(fits_in_memory(*model, devices, request).value());
        request.*member = most + 1;
        CHECK_FALSE(fits_in_memory(*model, devices, request).value());
    };
    std::int64_t contexts[3]{};
    std::int64_t batches[3]{};
    EstimateRequest const requests[] = {{}, {.prefill_chunk = 0}, {.utilization = 1.0}};
    for (std::size_t i = 0; i < 3; ++i) {
        CAPTURE(i);
        contexts[i] = longest_context(*model, devices, requests[i]).value();
        is_limit(requests[i], &EstimateRequest::context, contexts[i]);
        auto request = requests[i];
        request.context = 4096;
        batches[i] = largest_batch(*model, devices, request).value();
        is_limit(request, &EstimateRequest::batch, batches[i]);
    }
    CHECK(contexts[0] > contexts[1]);
    CHECK(contexts[0] < contexts[2]);
    CHECK(batches[0] > batches[1]);
    CHECK(batches[0] < batches[2]);
}

TEST_CASE("Custom: prefixes and roles are resolved, the longest wins, and unknown keys get the closest name") {
    auto config = llama_3_70b();
    config.layers = 2;
    auto const model = describe(config);
    REQUIRE(model.has_value());
    auto const modules = build_sequence(*model, {});
    auto const budgets = budgets_for(presets::four_a100_40gb, *model, {});
    Custom custom;
    custom.entries = {{"embedding", DeviceId::gpu(0)}, {"layer.1", DeviceId::gpu(2)}, {"model.layers", DeviceId::gpu(1)},
                      {"norm", DeviceId::gpu(3)}, {"head", DeviceId::gpu(3)}};
    auto const plan = DeviceMap<Custom>{custom}.plan(modules, budgets);
    REQUIRE(plan.has_value());
    std::string text;
    for (auto const& entry : plan->device_map) text += entry.prefix + ":" + std::to_string(entry.device.index) + " ";
    CHECK(text == "model.embed_tokens:0 model.layers.0:1 model.layers.1:2 model.norm:3 lm_head:3 ");
    CHECK(custom.warnings(modules).empty());

    auto const tensors = DeviceMap<Custom>{custom}.plan(build_sequence(*model, {}, {}, Granularity::tensors), budgets);
    REQUIRE(tensors.has_value());
    CHECK(tensors->device_map == plan->device_map);

    custom.entries.push_back({"model.layer", DeviceId::gpu(0)});
    auto const warnings = custom.warnings(modules);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0] == "custom map: 'model.layer' names nothing in the model; did you mean 'model.layers'?");
}

TEST_CASE("Custom: what is not covered is named; a device without a budget is refused; overfilling is reported") {
    auto config = llama_3_70b();
    config.layers = 2;
    auto const model = describe(config);
    REQUIRE(model.has_value());
    auto const modules = build_sequence(*model, {});
    auto budgets = budgets_for(presets::four_a100_40gb, *model, {});
    auto const place = [&](List<MapEntry> entries) {
        Custom custom;
        custom.entries = std::move(entries);
        return DeviceMap<Custom>{custom}.plan(modules, budgets);
    };
    auto const uncovered = place({{"model", DeviceId::gpu(0)}});
    REQUIRE(!uncovered.has_value());
    CHECK(uncovered.error().code() == ErrorCode::not_covered);
    CHECK(uncovered.error().message().find("lm_head") != std::string::npos);
    auto const elsewhere = place({{"", DeviceId::gpu(9)}});
    REQUIRE(!elsewhere.has_value());
    CHECK(elsewhere.error().code() == ErrorCode::no_such_device);
    CHECK(elsewhere.error().message() == "custom map: \"\": is mapped to device 9, which has no budget; name it in --devices or "
                                         "--max-memory");
    auto const on_disk = place({{"", DeviceId::gpu(0)}, {"lm_head", DeviceId::disk()}});
    REQUIRE(!on_disk.has_value());
    CHECK(on_disk.error().message() == "custom map: lm_head: is mapped to disk, which has no budget; name it in --devices or "
                                       "--max-memory");
    budgets[0].capacity = 1_GiB;
    auto const overfull = place({{"", DeviceId::gpu(0)}});
    REQUIRE(overfull.has_value());
    CHECK(!overfull->fits);
    CHECK(overfull->shortfall->device == DeviceId::gpu(0));
    CHECK(overfull->shortfall->missing == overfull->devices[0].used - 1_GiB);
    REQUIRE(overfull->reason.has_value());
    CHECK(overfull->reason->message().find("custom: model.embed_tokens needs ") == 0);
}

}  // namespace
