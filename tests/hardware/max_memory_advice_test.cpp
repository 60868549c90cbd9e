// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/max_memory_advice.hpp>
#include <shardwise/placement/max_memory_json.hpp>

#include <doctest/doctest.h>

#include "found_devices.hpp"

using namespace shardwise;
using shardwise::testing::mixed_machine;

TEST_CASE("advise_max_memory: takes 90 % of each device that may be used, in the form that --max-memory reads") {
    auto const machine = mixed_machine();
    auto const advice = advise_max_memory(machine);
    REQUIRE(advice.size() == 4);
    CHECK(advice[0].device == DeviceId::gpu(0));
    CHECK(advice[0].limit == 22107_MiB);  // 0.9 * 24564 = 22107.6
    CHECK(advice[0].exceeds_free);
    CHECK_FALSE(advice[1].exceeds_free);
    auto const json = max_memory_json(advice);
    CHECK(json == R"({"0":"22107MiB","1":"20730MiB","2":"176932MiB","cpu":"58982MiB"})");
    auto const read = parse_max_memory(json);
    REQUIRE(read.has_value());
    CHECK(read->of(DeviceId::gpu(2)) == 176932_MiB);
    CHECK(read->of(DeviceId::cpu()) == 58982_MiB);
    CHECK(advise_max_memory(machine, 0.5)[0].limit == 12282_MiB);
    CHECK(max_memory_json({}) == "{}");
}
