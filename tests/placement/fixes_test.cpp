// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/memory/estimator.hpp>
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
    REQUIRE_FALSE(task.fits(devices, request).value());
    auto const fixes = find_fixes(task, devices, request).value();

    // 3 devices cannot even hold the weights.
    CHECK(find_fix(fixes, FixKind::context) == nullptr);
    auto const* more = find_fix(fixes, FixKind::devices);
    REQUIRE(more != nullptr);
    CHECK(task.fits(with_more_devices(devices, more->amount), request).value());
    CHECK_FALSE(task.fits(with_more_devices(devices, more->amount - 1), request).value());

    auto const* packed = find_fix(fixes, FixKind::quant);
    REQUIRE(packed != nullptr);
    auto changed = request;
    changed.quant = packed->quant;
    CHECK(task.fits(devices, changed).value());

    auto const* offload = find_fix(fixes, FixKind::offload);
    REQUIRE(offload != nullptr);
    auto with_cpu = devices;
    with_cpu.push_back({});
    with_cpu.back().id = DeviceId::cpu();
    with_cpu.back().memory = Bytes{offload->amount};
    CHECK(task.fits(with_cpu, request).value());
    with_cpu.back().memory = Bytes{offload->amount - 1};
    CHECK_FALSE(task.fits(with_cpu, request).value());
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
    CHECK_FALSE(task.fits(busy, request).value());
    auto const found = find_fixes(task, busy, request).value();
    auto const expected = find_fixes(task, small, request).value();
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].kind == expected[i].kind);
        CHECK(found[i].amount == expected[i].amount);
        CHECK(found[i].change == expected[i].change);
    }
    CHECK(find_fix(found, FixKind::offload) != nullptr);
    CHECK(find_fix(found, FixKind::devices) != nullptr);
}

TEST_CASE("find_fixes: every fix that is offered makes it fit, the mildest first, no type wider than what it replaces") {
    struct Setting {
        ModelConfig const* config;
        std::string_view device;
        int count;
        EstimateRequest request;
    };
    Setting const settings[] = {
        {&presets::llama_3_70b, "A100-40GB", 3, {.context = 8192}},
        {&presets::llama_3_8b, "L4", 1, {.context = 1'000'000}},
        {&presets::llama_3_8b, "L4", 1, {.context = 60'000}},
        {&presets::llama_3_8b, "L4", 1, {.dtype = Dtype::f32}},
        {&presets::llama_3_8b, "L4", 1, {.kv_dtype = Dtype::f32, .context = 60'000}},
        {&presets::llama_3_8b, "RTX4090", 1, {.kv_dtype = Dtype::f8_e4m3, .batch = 64}},
        {&presets::llama_3_8b, "RTX3060", 1, {.quant = QuantScheme::int8(), .batch = 4}},
        {&presets::mixtral_8x7b, "A100-80GB", 1, {}},
        {&presets::deepseek_v3, "H200-141GB", 4, {.context = 4096}},
        {&presets::deepseek_v3, "H200-141GB", 8, {.batch = 256, .context = 100'000}},
        {&presets::gpt_oss_120b, "RTX4090", 2, {}},
        {&presets::gpt2, "T4", 1, {.batch = 4096}},
    };
    // A shorter context costs more than 8 bits and less than fewer of them.
    auto const harm = [](Fix const& fix) {
        switch (fix.kind) {
            case FixKind::kv_dtype: return 0;
            case FixKind::dtype: return 1;
            case FixKind::quant: return nominal_bits(*fix.quant) >= 8 ? 2 : 4;
            case FixKind::context: return 3;
            case FixKind::devices: return 5;
            case FixKind::offload: return 6;
        }
        return -1;
    };
    std::size_t seen[7] = {};
    for (auto const& setting : settings) {
        auto const model = describe(*setting.config).value();
        CAPTURE(setting.config->model_type.view());
        CAPTURE(setting.count);
        PlacementTask const task(model);
        auto const devices = devices_like(setting.device, setting.count);
        auto const& request = setting.request;
        REQUIRE_FALSE(task.fits(devices, request).value());
        auto const fixes = find_fixes(task, devices, request).value();
        CHECK(!fixes.empty());
        for (std::size_t i = 0; i < fixes.size(); ++i) {
            auto const& fix = fixes[i];
            CAPTURE(name_of(fix.kind));
            if (i > 0) CHECK(harm(fixes[i - 1]) < harm(fix));
            ++seen[harm(fix)];
            CHECK(fix.change > Bytes{});
            auto changed = request;
            auto more = devices;
            switch (fix.kind) {
                case FixKind::kv_dtype:
                    CHECK(bits(*fix.dtype) < bits(kv_dtype_of(as_published(request, model.config), model.config)));
                    changed.kv_dtype = fix.dtype;
                    break;
                case FixKind::dtype:
                    CHECK(bits(*fix.dtype) < weight_bits(model, request));
                    changed.dtype = fix.dtype;
                    break;
                case FixKind::quant:
                    CHECK(nominal_bits(*fix.quant) < weight_bits(model, request));
                    changed.quant = fix.quant;
                    break;
                case FixKind::context: changed.context = fix.amount; break;
                case FixKind::devices: more = with_more_devices(devices, fix.amount); break;
                case FixKind::offload:
                    more.push_back({});
                    more.back().id = DeviceId::cpu();
                    more.back().memory = Bytes{fix.amount};
                    break;
            }
            CHECK(task.fits(more, changed).value());
        }
        // A cache type that suffices is offered, and so is fp8 where the weights are wider.
        auto narrow = request;
        narrow.kv_dtype = Dtype::f8_e4m3;
        bool const has_wider_cache = bits(kv_dtype_of(as_published(request, model.config), model.config)) > 8;
        CHECK((find_fix(fixes, FixKind::kv_dtype) != nullptr) == (has_wider_cache && task.fits(devices, narrow).value()));
        narrow = request;
        narrow.quant = QuantScheme::fp8();
        if (weight_bits(model, request) > 8 && task.fits(devices, narrow).value()) {
            REQUIRE(find_fix(fixes, FixKind::quant) != nullptr);
            CHECK(find_fix(fixes, FixKind::quant)->quant == QuantScheme::fp8());
        }
    }
    // The settings reach every kind.
    for (auto const count : seen) CHECK(count > 0);
}

TEST_CASE("PlacementTask and find_fixes refuse a request in the words of estimate_memory") {
    auto const model = describe(presets::llama_3_8b).value();
    PlacementTask const task(model);
    auto const devices = devices_like("L4", 1);
    EstimateRequest const bad[] = {{.batch = -3}, {.batch = 0}, {.context = -5}, {.prefill_chunk = -1},
                                   {.utilization = 1.5}, {.parallel = {.tp = 33}}, {.context = INT64_MAX}};
    for (auto const& request : bad) {
        auto const expected = estimate_memory(model, request).error().message();
        CHECK(expected.find("--") == std::string::npos);
        CHECK(task.check(request).error().message() == expected);
        CHECK(task.fits(devices, request).error().message() == expected);
        CHECK(find_fixes(task, devices, request).error().message() == expected);
    }
    CHECK(task.check({}).has_value());
    CHECK(PlacementTask(model.tree, {}).check({}).has_value());
    CHECK(PlacementTask(model.tree, {}).check({.batch = -3}).error().message() == task.check({.batch = -3}).error().message());
    CHECK(!PlacementTask(model.tree, {}).check({.utilization = -1.0}));
}

TEST_CASE("find_fixes: the largest context that fits") {
    auto const model = describe(presets::llama_3_8b);
    REQUIRE(model);
    PlacementTask const task(*model);
    auto const devices = devices_like("L4", 1);
    EstimateRequest request{.context = 1'000'000};
    auto const fixes = find_fixes(task, devices, request).value();
    auto const* shorter = find_fix(fixes, FixKind::context);
    REQUIRE(shorter != nullptr);
    request.context = shorter->amount;
    CHECK(task.fits(devices, request).value());
    request.context = shorter->amount + 1;
    CHECK_FALSE(task.fits(devices, request).value());
}

TEST_CASE("find_fixes: a bare tree has no context and no scheme, but dtypes") {
    auto const model = describe(presets::gpt2);
    REQUIRE(model);
    PlacementTask const task(model->tree, {});
    Device device;
    device.id = DeviceId::gpu(0);
    device.memory = 400_MiB;
    auto const fixes = find_fixes(task, std::span<Device const>(&device, 1), {}).value();
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
    CHECK(names(presets::llama_3_8b) == "fp8 int8 int4-g128 Q3_K_M Q2_K ");
    CHECK(names(presets::mixtral_8x7b) == "fp8 int8 mxfp4 int4-g128 Q3_K_M Q2_K ");
    CHECK(names(presets::deepseek_v3) == "mxfp4 int4-g128 Q3_K_M Q2_K ");
    CHECK(names(presets::deepseek_v3, {.dtype = Dtype::bf16}) == "fp8 int8 mxfp4 int4-g128 Q3_K_M Q2_K ");
    CHECK(names(presets::gpt_oss_20b) == "Q3_K_M Q2_K ");
    CHECK(names(presets::llama_3_8b, {.quant = QuantScheme::int8()}) == "int4-g128 Q3_K_M Q2_K ");
    CHECK(names(presets::llama_3_8b, {.quant = QuantScheme::ggml(GgmlFileType::q3_k_m)}) == "Q2_K ");
    // mxfp4 packs nothing of a dense model.
    CHECK(names(presets::llama_3_8b, {.quant = QuantScheme::mxfp4()}) == "fp8 int8 int4-g128 Q3_K_M Q2_K ");
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
    REQUIRE_FALSE(task.fits(devices, request).value());
    auto const fixes = find_fixes(task, devices, request).value();
    CHECK(find_fix(fixes, FixKind::dtype) == nullptr);
    auto const* packed = find_fix(fixes, FixKind::quant);
    REQUIRE(packed != nullptr);
    CHECK(packed->quant == QuantScheme::mxfp4());
    CHECK(task.fits(devices_like("H200-141GB", 8), request).value());
    auto const oss = describe(presets::gpt_oss_120b);
    REQUIRE(oss);
    CHECK(fits_in_memory(*oss, devices_like("H100-80GB", 1), {}).value());
}
