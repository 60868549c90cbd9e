// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/profile_json.hpp>
#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/measured_times.hpp>
#include <shardwise/placement/optimal.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace shardwise;
    static auto const model = describe(presets::gpt2);
    static auto const devices = *parse_device_spec("2xRTX4090");
    auto const profile = read_profile({reinterpret_cast<char const*>(data), size}, "profile.json");
    if (!profile) {
        if (profile.error().message().empty()) std::abort();
        return 0;
    }
    if (auto const text = write_profile(*profile); write_profile(*read_profile(text, "again.json")) != text)
        std::abort();
    auto modules = build_sequence(*model, {});
    auto budgets = budgets_for(devices, *model, {});
    auto const times = apply_profile(*profile, model->tree, devices, 1, 512, modules, budgets);
    if (!times) return 0;
    for (auto const objective : {Objective::bottleneck, Objective::latency}) {
        auto const placement = Optimal{.objective = objective}(modules, budgets);
        if (!placement || !(placement->certificate->value >= 0.0)) std::abort();
    }
    return 0;
}
