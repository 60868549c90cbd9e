// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/topology.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/plan_parallel.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

using namespace shardwise;

namespace {

Device gpu_with(std::initializer_list<AttentionRate> rates) {
    Device device;
    device.memory = 24_GiB;
    device.bandwidth = 1.5e12;
    device.peak.bf16 = 3e14;
    device.peak.fp32 = 2e13;
    std::copy(rates.begin(), rates.end(), device.measured.attention.begin());
    return device;
}

double tokens_per_second(std::vector<Device> const& devices, PlanObjective objective, bool is_tensor_parallel) {
    auto const model = describe(presets::llama_3_8b);
    REQUIRE(model);
    Topology topology;
    for (auto device : devices) {
        device.id = DeviceId::gpu(static_cast<std::int32_t>(topology.devices.size()));
        topology.devices.push_back(device);
    }
    PlanRequest request{.estimate = {.batch = 4, .context = 8192}};
    request.objective = objective;
    if (is_tensor_parallel) request.pins = {.tp = 2, .pp = 1, .dp = 1};
    auto const plan = plan_parallel(*model, topology, request);
    REQUIRE(plan);
    return plan->cost.tokens_per_second;
}

/// Of so many lengths in two element types.
Device random_gpu(std::mt19937& random, std::size_t lengths) {
    auto device = gpu_with({});
    device.peak.fp32 *= random() % 2 == 0 ? 1.0 : 10.0;
    device.measured.one_row.fp32 = random() % 2 == 0 ? 0.0 : 4e11;
    std::vector<AttentionRate> rates;
    for (auto const kv : {Dtype::bf16, Dtype::f32}) {
        for (std::int64_t context = 1; context <= 24; ++context) rates.push_back({kv, context * 100, 0.0, 0.0});
    }
    std::shuffle(rates.begin(), rates.end(), random);
    for (std::size_t i = 0; i < lengths; ++i) {
        rates[i].decode = 1e11 * static_cast<double>(1 + random() % 30);
        rates[i].prefill = 1e13 * static_cast<double>(1 + random() % 30);
        device.measured.attention[i] = rates[i];
    }
    return device;
}

/// What attention of a device does with weights of some type: as measured, else as it is priced.
std::pair<double, double> attention_of(Device const& device, Dtype weights, CacheKind const& cache) {
    auto const rates = device_rates(device, weights, default_efficiency, cache);
    auto const prefill = rates.prefill_attention > 0.0 ? rates.prefill_attention : rates.attention;
    return {rates.decode_attention > 0.0 ? rates.decode_attention : rates.memory, prefill};
}

}  // namespace

TEST_CASE(
    "mixed attention: devices that were measured with other lengths and element types mix to the worse, or the "
    "better") {
    std::mt19937 random(5);
    for (int i = 0; i < 300; ++i) {
        CAPTURE(i);
        auto const one = random_gpu(random, random() % 13);
        auto const other = random_gpu(random, random() % 13);
        auto const worse = detail::mixed_device(one, other, false);
        auto const better = detail::mixed_device(one, other, true);
        CHECK(worse.measured.attention == detail::mixed_device(other, one, false).measured.attention);
        CHECK(better.measured.attention == detail::mixed_device(other, one, true).measured.attention);
        bool const fits = detail::attention_lengths(one, other).size() <= worse.measured.attention.size();
        for (auto const kv : {Dtype::bf16, Dtype::f32}) {
            for (std::int64_t context = 50; context < 2600; context += 50) {
                for (auto const weights : {Dtype::bf16, Dtype::f32}) {
                    CacheKind const cache{kv, context};
                    auto const a = attention_of(one, weights, cache);
                    auto const b = attention_of(other, weights, cache);
                    auto const low = attention_of(worse, weights, cache);
                    auto const high = attention_of(better, weights, cache);
                    CHECK(low.first <= std::min(a.first, b.first));
                    CHECK(low.second <= std::min(a.second, b.second));
                    CHECK(high.first >= std::max(a.first, b.first));
                    CHECK(high.second >= std::max(a.second, b.second));
                    bool const are_measured = attention_rate_of(one.measured.attention, kv, context).context > 0 &&
                                              attention_rate_of(other.measured.attention, kv, context).context > 0;
                    if (!are_measured || !fits) continue;
                    CHECK(low.first == std::min(a.first, b.first));
                    CHECK(low.second == std::min(a.second, b.second));
                }
            }
        }
    }
}

TEST_CASE("plan: does not depend on the order of devices whose attention differs") {
    auto const plain = gpu_with({{Dtype::f32, 1024, 1.2e12, 1e14}});
    auto const slow = gpu_with({{Dtype::bf16, 1024, 1e9, 1e14}});
    auto const fast = gpu_with({{Dtype::bf16, 1024, 1e12, 1e14}});
    auto const fast_if_short = gpu_with({{Dtype::bf16, 1024, 1e12, 1e14}, {Dtype::bf16, 8192, 1e9, 1e14}});
    auto const alone = tokens_per_second({slow, slow}, PlanObjective::latency, true);
    for (auto const& [one, other] : {std::pair{plain, slow}, std::pair{fast, fast_if_short}, std::pair{fast, slow}}) {
        CHECK(tokens_per_second({one, other}, PlanObjective::latency, true) == doctest::Approx(alone).epsilon(0.01));
        CHECK(tokens_per_second({other, one}, PlanObjective::latency, true) == doctest::Approx(alone).epsilon(0.01));
        // The stronger one comes first where ranks do not share the work alike.
        for (auto const objective : {PlanObjective::latency, PlanObjective::devices}) {
            auto const found = tokens_per_second({one, other}, objective, false);
            CHECK(found == tokens_per_second({other, one}, objective, false));
            CHECK(found >= tokens_per_second({one, one}, PlanObjective::devices, false) * (1 - 1e-12));
        }
    }
}

TEST_CASE("plan: a little more bandwidth does not hide far slower attention") {
    auto slow = gpu_with({{Dtype::bf16, 1024, 1e10, 1e14}});
    slow.bandwidth *= 1.001;
    auto const fast = gpu_with({{Dtype::bf16, 1024, 1e12, 1e14}});
    auto const alone = tokens_per_second({fast}, PlanObjective::devices, false);
    CHECK(tokens_per_second({slow, fast}, PlanObjective::devices, false) == alone);
    CHECK(tokens_per_second({fast, slow}, PlanObjective::devices, false) == alone);
}
