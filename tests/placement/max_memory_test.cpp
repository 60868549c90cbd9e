// SPDX-License-Identifier: Apache-2.0
#include <shardwise/placement/max_memory.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace {

using namespace shardwise;

TEST_CASE("Limits are ordered GPUs by number, mps, cpu, disk, however they were added") {
    MaxMemory limits;
    CHECK(limits.add("disk", "1GB"));
    CHECK(limits.add("cpu", "2GB"));
    CHECK(limits.add("10", "3GB"));
    CHECK(limits.add("mps", "4GB"));
    CHECK(limits.add("cuda:2", "5GiB"));
    std::vector<DeviceLimit> const expected{{DeviceId::gpu(2), 5_GiB},
                                            {DeviceId::gpu(10), 3_GB},
                                            {DeviceId::mps(), 4_GB},
                                            {DeviceId::cpu(), 2_GB},
                                            {DeviceId::disk(), 1_GB}};
    CHECK(limits.limits() == expected);
    CHECK(limits.of(DeviceId::mps()) == 4_GB);
    CHECK_FALSE(limits.of(DeviceId::gpu(0)));
}

TEST_CASE("Unknown devices, repeated ones and bad sizes are refused") {
    MaxMemory limits;
    CHECK(limits.add("0", "10GiB"));
    CHECK(limits.add("0", "10GiB").error().code() == ErrorCode::invalid_argument);
    CHECK(limits.add("cuda:0", "10GiB").error().code() == ErrorCode::invalid_argument);
    for (auto const* key : {"", "gpu0", "-1", "CPU", "cuda", "cuda:", "1.0", " 1", "9999999999"}) {
        CAPTURE(key);
        CHECK(limits.add(key, "1GB").error().code() == ErrorCode::unknown_name);
    }
    for (auto const* size : {"1.5", "10X", "1EB", "5MBB", "-1GB", ""}) {
        CAPTURE(size);
        CHECK(limits.add("1", size).error().code() == ErrorCode::invalid_argument);
    }
    CHECK(limits.add(DeviceId::cpu(), Bytes{-1}).error().code() == ErrorCode::invalid_argument);
    CHECK(limits.limits().size() == 1);
}

TEST_CASE("A device is written as device maps name it") {
    CHECK(device_key(DeviceId::gpu(7)) == "7");
    CHECK(device_key(DeviceId::mps()) == "mps");
    CHECK(device_key(DeviceId::cpu()) == "cpu");
    CHECK(device_key(DeviceId::disk()) == "disk");
}

constexpr bool sorts_in_constant_expressions() {
    MaxMemory limits;
    if (!limits.add(DeviceId::cpu(), 1_GB) || !limits.add(DeviceId::gpu(0), 2_GB)) return false;
    return limits.limits().front().device == DeviceId::gpu(0);
}
static_assert(sorts_in_constant_expressions());

}  // namespace
