// SPDX-License-Identifier: Apache-2.0
// Which part of a model goes on which device, and how good is that?
#include <shardwise/shardwise.hpp>

#include <cstdio>

namespace {

void report(shardwise::MapPlan const& plan) {
    using namespace shardwise;
    if (!plan.fits) {
        std::printf("does not fit: %s\n", plan.reason->message().c_str());
        std::printf("GPU %d would need %s more\n", plan.shortfall->device.index, to_text(plan.shortfall->missing).c_str());
        return;
    }
    for (auto const& use : plan.devices) {
        std::printf("GPU %d: %s of %s\n", use.id.index, to_text(use.used).c_str(), to_text(use.capacity).c_str());
    }
    std::printf("largest load %.3f; nothing below %.3f is possible\n", plan.certificate->value, plan.certificate->lower_bound);
    // The device map as Hugging Face reads it.
    std::printf("%zu entries, first %s on GPU %d\n", plan.device_map.size(), plan.device_map.front().prefix.c_str(),
                plan.device_map.front().device.index);
}

}  // namespace

int main() {
    using namespace shardwise;

    auto const model = describe(presets::llama_3_70b);
    if (!model) return std::puts(model.error().message().c_str()), 1;

    for (auto const* spec : {"4xA100-40GB", "2xA100-80GB+2xRTX4090", "3xA100-40GB"}) {
        auto const devices = parse_device_spec(spec);
        if (!devices) return std::puts(devices.error().message().c_str()), 1;
        auto const plan = DeviceMap<Optimal>{}.plan(*model, *devices, {.context = 8192});
        if (!plan) return std::puts(plan.error().message().c_str()), 1;
        std::printf("-- %s\n", spec);
        report(*plan);
    }
}
