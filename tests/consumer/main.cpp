// SPDX-License-Identifier: Apache-2.0
#include <shardwise/shardwise.hpp>
#include <cstdio>

int main() {
    using namespace shardwise;
    auto const plan = DeviceMap<Sequential>{}.plan(*describe(presets::llama_3_8b), presets::four_a100_40gb, {});
    std::printf("shardwise %d.%d.%d: %s on %s\n", SHARDWISE_VERSION_MAJOR, SHARDWISE_VERSION_MINOR,
                SHARDWISE_VERSION_PATCH, plan->fits ? "fits" : "does not fit",
                to_text(plan->devices[0].capacity).c_str());
}
