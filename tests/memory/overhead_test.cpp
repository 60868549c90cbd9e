// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/overhead.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

TEST_CASE("overhead: GPUs have a stated term, cpu and disk none") {
    CHECK(runtime_overhead(DeviceClass::gpu) == 512_MiB);
    CHECK(runtime_overhead(DeviceClass::cpu) == 0_B);
    CHECK(runtime_overhead(DeviceClass::disk) == 0_B);
}
