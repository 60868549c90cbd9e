// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/placement/fixes.hpp>

#include <doctest/doctest.h>

#include <span>
#include <string>

using namespace shardwise;

namespace {

std::vector<Device> devices_like(std::string_view name, int count) {
    std::vector<Device> devices;
    for (int i = 0; i < count; ++i) {
        devices.push_back(*find_device_preset(name));
        devices.back().id = DeviceId::gpu(i);
    }
    return devices;
}

Fix const* find_fix(std::vector<Fix> const& fixes, FixKind kind) {
    for (auto const& fix : fixes) {
        if (fix.kind == kind) return &fix;
    }
    return nullptr;
}

}  // namespace

TEST_CASE("smallest_that: finds the least number, nothing where none holds") {
    for (std::int64_t least = 1; least <= 70; ++least) {
        CHECK(smallest_that(64, [&](std::int64_t n) { return n >= least; }) ==
              (least <= 64 ? std::optional{least} : std::nullopt));
    }
}

TEST_CASE("find_fixes: each fix makes the plan fit, and the next smaller one of its kind does not") {
    auto const model = describe(presets::llama_3_70b);
    REQUIRE(model);
    PlacementTask const task(*model);
    auto const devices = devices_like("A100-40GB", 3);
    EstimateRequest const request{.context = 8192};
    REQUIRE_FALSE(task.fits(devices, request));
    auto const fixes = find_fixes(task, devices, request);
    for (std::size_t i = 1; i < fixes.size(); ++i) CHECK(fixes[i - 1].change <= fixes[i].change);

    // 3 devices cannot even hold the weights.
    CHECK(find_fix(fixes, FixKind::context) == nullptr);
    auto const* more = find_fix(fixes, FixKind::devices);
    REQUIRE(more != nullptr);
    CHECK(task.fits(with_more_devices(devices, more->amount), request));
    CHECK_FALSE(task.fits(with_more_devices(devices, more->amount - 1), request));

    auto const* packed = find_fix(fixes, FixKind::quant);
    REQUIRE(packed != nullptr);
    auto changed = request;
    changed.quant = packed->quant;
    CHECK(task.fits(devices, changed));

    auto const* offload = find_fix(fixes, FixKind::offload);
    REQUIRE(offload != nullptr);
    auto with_cpu = devices;
    with_cpu.push_back({});
    with_cpu.back().id = DeviceId::cpu();
    with_cpu.back().memory = Bytes{offload->amount};
    CHECK(task.fits(with_cpu, request));
    with_cpu.back().memory = Bytes{offload->amount - 1};
    CHECK_FALSE(task.fits(with_cpu, request));
}

TEST_CASE("Budgets and fixes count what is free of a device as if it had no more") {
    auto const model = describe(presets::llama_3_8b);
    REQUIRE(model);
    PlacementTask const task(*model);
    EstimateRequest const request{.context = 4096};
    auto busy = devices_like("H100-80GB", 1);
    busy.push_back({});
    busy.back().id = DeviceId::cpu();
    busy.back().memory = Bytes{std::int64_t{64} << 30};
    auto small = busy;
    small[0].is_whole_memory = false;
    busy[0].memory_free = small[0].memory = Bytes{std::int64_t{10} << 30};
    busy[1].memory_free = small[1].memory = Bytes{std::int64_t{1} << 30};
    CHECK(budgets_of(busy)[0].capacity == small[0].memory);
    CHECK_FALSE(task.fits(busy, request));
    auto const found = find_fixes(task, busy, request);
    auto const expected = find_fixes(task, small, request);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].kind == expected[i].kind);
        CHECK(found[i].amount == expected[i].amount);
        CHECK(found[i].change == expected[i].change);
    }
    CHECK(find_fix(found, FixKind::offload) != nullptr);
    CHECK(find_fix(found, FixKind::devices) != nullptr);
}

TEST_CASE("find_fixes: the largest context that fits") {
    auto const model = describe(presets::llama_3_8b);
    REQUIRE(model);
    PlacementTask const task(*model);
    auto const devices = devices_like("L4", 1);
    EstimateRequest request{.context = 1'000'000};
    auto const fixes = find_fixes(task, devices, request);
    auto const* shorter = find_fix(fixes, FixKind::context);
    REQUIRE(shorter != nullptr);
    request.context = shorter->amount;
    CHECK(task.fits(devices, request));
    request.context = shorter->amount + 1;
    CHECK_FALSE(task.fits(devices, request));
}

TEST_CASE("find_fixes: a bare tree has no context and no scheme, but dtypes") {
    auto const model = describe(presets::gpt2);
    REQUIRE(model);
    PlacementTask const task(model->tree, {});
    Device device;
    device.id = DeviceId::gpu(0);
    device.memory = 400_MiB;
    auto const fixes = find_fixes(task, std::span<Device const>(&device, 1), {});
    CHECK(find_fix(fixes, FixKind::context) == nullptr);
    CHECK(find_fix(fixes, FixKind::quant) == nullptr);
    auto const* narrower = find_fix(fixes, FixKind::dtype);
    REQUIRE(narrower != nullptr);
    CHECK(narrower->dtype == Dtype::bf16);
}

TEST_CASE("quant ladder: what the weights already are, or larger, is not on it") {
    auto const names = [](ModelConfig const& config, EstimateRequest const& request = {}) {
        auto const model = describe(config);
        std::string text;
        for (auto const& scheme : smaller_schemes(*model, request)) text += std::string(name_of(scheme).view()) + ' ';
        return text;
    };
    CHECK(names(presets::llama_3_8b) == "int8 fp8 int4-g128 Q3_K_M Q2_K ");
    CHECK(names(presets::mixtral_8x7b) == "int8 fp8 mxfp4 int4-g128 Q3_K_M Q2_K ");
    CHECK(names(presets::deepseek_v3) == "mxfp4 int4-g128 Q3_K_M Q2_K ");
    CHECK(names(presets::deepseek_v3, {.dtype = Dtype::bf16}) == "int8 fp8 mxfp4 int4-g128 Q3_K_M Q2_K ");
    CHECK(names(presets::gpt_oss_20b) == "Q3_K_M Q2_K ");
    CHECK(names(presets::llama_3_8b, {.quant = QuantScheme::int8()}) == "int4-g128 Q3_K_M Q2_K ");
    CHECK(names(presets::llama_3_8b, {.quant = QuantScheme::ggml(GgmlFileType::q3_k_m)}) == "Q2_K ");
    // mxfp4 packs nothing of a dense model.
    CHECK(names(presets::llama_3_8b, {.quant = QuantScheme::mxfp4()}) == "int8 fp8 int4-g128 Q3_K_M Q2_K ");
    CHECK(nominal_bits(QuantScheme::nf4()) == 4);
    CHECK(nominal_bits(QuantScheme::gptq(3)) == 3);
    CHECK(nominal_bits(QuantScheme::ggml(GgmlFileType::q6_k)) == 6);
}

TEST_CASE("find_fixes: an fp8 checkpoint is offered less than 8 bits, and never bf16") {
    auto const model = describe(presets::deepseek_v3);
    REQUIRE(model);
    PlacementTask const task(*model);
    auto const devices = devices_like("H200-141GB", 4);
    EstimateRequest const request{.context = 4096};
    REQUIRE_FALSE(task.fits(devices, request));
    auto const fixes = find_fixes(task, devices, request);
    CHECK(find_fix(fixes, FixKind::dtype) == nullptr);
    auto const* packed = find_fix(fixes, FixKind::quant);
    REQUIRE(packed != nullptr);
    CHECK(packed->quant == QuantScheme::mxfp4());
    CHECK(task.fits(devices_like("H200-141GB", 8), request));
    auto const oss = describe(presets::gpt_oss_120b);
    REQUIRE(oss);
    CHECK(fits_in_memory(*oss, devices_like("H100-80GB", 1), {}).value());
}
