// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/placement/balanced.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/inverse.hpp>
#include <shardwise/placement/optimal.hpp>
#include <shardwise/placement/sequential.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

using namespace shardwise;

namespace {

template <class T>
std::string refusal(Result<T> const& result) {
    return result ? std::string{"accepted"} : result.error().message();
}

}  // namespace

TEST_CASE("Every question about placement refuses a request in the words of estimate_memory") {
    auto const model = describe(presets::llama_3_8b).value();
    EstimateRequest const bad[] = {
        {.batch = -3},
        {.batch = 0},
        {.context = -5},
        {.batch = 4, .micro_batches = 5},
        {.parallel = {.tp = 0}},
        {.parallel = {.tp = 33}},
        {.parallel = {.pp = 33}},
        {.parallel = {.ep = 2}},
        {.parallel = {.dp = -1}},
        {.prefill_chunk = -1},
        {.utilization = 0.0},
        {.utilization = -0.5},
        {.utilization = 1.01},
        {.utilization = std::numeric_limits<double>::quiet_NaN()},
        {.context = INT64_MAX},
        {.batch = std::int64_t{1} << 20U, .context = std::int64_t{1} << 20U},
    };
    Span<Device const> const devices = presets::four_a100_40gb;
    for (auto const& request : bad) {
        auto const expected = refusal(estimate_memory(model, request));
        CAPTURE(expected);
        CHECK(expected != "accepted");
        CHECK(refusal(DeviceMap<Sequential>{}.plan(model, devices, request)) == expected);
        CHECK(refusal(DeviceMap<Optimal>{}.plan(model, devices, request)) == expected);
        CHECK(refusal(check_fit<Balanced>(presets::llama_3_8b, devices, request)) == expected);
        CHECK(refusal(fits_in_memory(model, devices, request)) == expected);
        CHECK(refusal(longest_context(model, devices, request)) == expected);
        CHECK(refusal(largest_batch(model, devices, request)) == expected);
        CHECK(refusal(fewest_devices(model, devices[0], request)) == expected);
    }
    for (std::int64_t const limit : {std::int64_t{-1}, std::int64_t{0}, INT64_MAX}) {
        CHECK(refusal(fewest_devices(model, devices[0], {}, limit)).find("limit: must be") == 0);
    }
}

TEST_CASE("Inverse queries end where sizes can be computed: what they find is itself a legal request") {
    auto config = presets::llama_3_8b;
    config.layers = 1;
    auto const model = describe(config).value();
    Device vast = presets::two_rtx4090[0];
    vast.memory = Bytes{std::int64_t{1} << 60U};
    Span<Device const> const devices{&vast, 1};
    EstimateRequest request{.batch = 1000};
    request.context = longest_context(model, devices, request).value();
    CHECK(request.context > 1);
    CHECK(estimate_memory(model, request).has_value());
    ++request.context;
    CHECK(!(estimate_memory(model, request) && fits_in_memory(model, devices, request).value()));
    request = {.batch = 6, .context = 100'000, .micro_batches = 6};
    request.batch = largest_batch(model, devices, request).value();
    CHECK(request.batch > 6);
    CHECK(estimate_memory(model, request).has_value());
}

TEST_CASE("Inverse queries: 0 and nothing mean that none fits") {
    auto const model = describe(presets::llama_3_70b).value();
    CHECK(longest_context(model, presets::two_rtx4090, {}).value() == 0);
    CHECK(largest_batch(model, presets::two_rtx4090, {}).value() == 0);
    CHECK(fewest_devices(model, presets::two_rtx4090[0], {}, 2).value() == std::nullopt);
}

TEST_CASE("describe and check_fit know the families of their list and no others") {
    using Llamas = ArchitectureList<Llama>;
    CHECK(describe<Llamas>(presets::llama_3_8b).has_value());
    auto const unknown = describe<Llamas>(presets::qwen3_8b);
    REQUIRE(!unknown.has_value());
    CHECK(unknown.error().code() == ErrorCode::unknown_name);
    CHECK(unknown.error().message().find("qwen3: model_type: is not a known architecture") == 0);
    CHECK(check_fit<Sequential, Llamas>(presets::llama_3_8b, presets::four_a100_40gb).value());
    CHECK(refusal(check_fit<Sequential, Llamas>(presets::qwen3_8b, presets::four_a100_40gb)) == unknown.error().message());
    // What is proposed is in the list too.
    auto config = presets::llama_3_8b;
    config.model_type = "lama";
    CHECK(refusal(describe<Llamas>(config)).find("did you mean llama?") != std::string::npos);
    config.model_type = "qwen";
    CHECK(refusal(describe<Llamas>(config)).find("qwen2") == std::string::npos);
}

TEST_CASE("repeat_device: numbered devices of one preset, or an error that names the unknown one") {
    auto const two = repeat_device<2>("rtx 4090");
    REQUIRE(two.has_value());
    CHECK((*two)[0].id == DeviceId::gpu(0));
    CHECK((*two)[1].id == DeviceId::gpu(1));
    CHECK((*two)[1].memory == find_device_preset("RTX4090")->memory);
    auto const typo = repeat_device<2>("RTX4091");
    REQUIRE(!typo.has_value());
    CHECK(typo.error().code() == ErrorCode::unknown_name);
    CHECK(typo.error().message() == "RTX4091: is not the name of one device preset; did you mean RTX4090?");
    CHECK(!repeat_device<2>("").has_value());
    CHECK(!repeat_device<2>("A100").has_value());
}
