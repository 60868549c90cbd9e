// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/max_memory_advice.hpp>
#include <shardwise/placement/max_memory_json.hpp>

#include <doctest/doctest.h>

#include "found_devices.hpp"

using namespace shardwise;
using shardwise::testing::mixed_machine;

TEST_CASE(
    "advise_max_memory: takes 92 % of each device that may be used, never above what is free, as --max-memory reads "
    "it") {
    auto const machine = mixed_machine();
    auto const advice = advise_max_memory(machine);
    REQUIRE(advice.size() == 4);
    CHECK(advice[0].device == DeviceId::gpu(0));
    CHECK(advice[0].limit == 20480_MiB);  // free, below 0.92 * 24564
    auto const json = max_memory_json(advice);
    CHECK(json == R"({"0":"20480MiB","1":"21191MiB","2":"180864MiB","cpu":"40960MiB"})");
    auto const read = parse_max_memory(json);
    REQUIRE(read.has_value());
    CHECK(read->of(DeviceId::gpu(2)) == 180864_MiB);  // 0.92 * 196592 = 180864.64
    CHECK(read->of(DeviceId::cpu()) == 40960_MiB);
    CHECK(advise_max_memory(machine, 0.5)[0].limit == 12282_MiB);
    CHECK(max_memory_json({}) == "{}");
}
