// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/recommend_devices.hpp>

#include <doctest/doctest.h>

#include "found_devices.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise::testing::found_processor;
using shardwise::testing::mixed_machine;

namespace {

using Positions = std::vector<std::size_t>;

}  // namespace

TEST_CASE("recommend_devices: ROCm is taken first where it is asked for and holds the model") {
    auto machine = mixed_machine();
    machine[3].device.bandwidth = 1e9;
    DeviceWish wish{.needed = 15_GiB, .prefer = DeviceKind::hip};
    CHECK(recommend_devices(machine, {.needed = 15_GiB}).devices == Positions{0});
    CHECK(recommend_devices(machine, wish).devices == Positions{3});
    machine[3].device.memory_free = 14_GiB;
    auto const other = recommend_devices(machine, wish);
    CHECK(other.devices == Positions{0});
    CHECK(other.reason.find("no hip device holds it") != std::string::npos);
}

TEST_CASE(
    "recommend_devices: the fastest of those that hold the model; of unknown need the one with most memory to use") {
    auto machine = mixed_machine();
    CHECK(recommend_devices(machine, {.needed = 10_GiB}).devices == Positions{3});
    CHECK(recommend_devices(machine).devices == Positions{3});
    machine[3].is_available = false;
    // The 4090 is faster than the L4, which has more to use: 0.92 of 23,034 MiB.
    auto const fast = recommend_devices(machine, {.needed = 10_GiB});
    CHECK(fast.devices == Positions{0});
    CHECK(fast.reason == "cuda:0 (RTX4090): 20.00 GiB to use, 10.00 GiB needed; the fastest of 2 that hold it");
    CHECK(recommend_devices(machine, {.needed = 20_GiB + 700_MiB}).devices == Positions{1});
    // 22 GiB of the L4 are free, but no plan takes that much of it.
    CHECK(recommend_devices(machine, {.needed = 21_GiB}).devices == Positions{0, 1});
    CHECK(recommend_devices(machine, {.needed = 21_GiB, .utilization = 1.0}).devices == Positions{1});
    CHECK(recommend_devices(machine).devices == Positions{1});
    // Measured rates count before published ones.
    machine[1].device.measured.bandwidth = 5e12;
    CHECK(recommend_devices(machine, {.needed = 10_GiB}).devices == Positions{1});
}

TEST_CASE("recommend_devices: what no device holds alone the fewest hold together, else the processor, else none") {
    auto machine = mixed_machine();
    machine[3].is_available = false;
    auto const both = recommend_devices(machine, {.needed = 40_GiB});
    CHECK(both.devices == Positions{0, 1});
    CHECK(both.reason == "no device alone holds 40.00 GiB; 2 of kind cuda do together");
    // 40 GiB are free on the processor, and 40.69 may be used of both GPUs: 43 fit nowhere.
    CHECK(recommend_devices(machine, {.needed = 43_GiB}).devices.empty());
    CHECK(recommend_devices(machine, {.needed = 43_GiB}).reason.find("needs 43.00 GiB") == 0);
    machine[4].device.memory_free = 60_GiB;
    CHECK(recommend_devices(machine, {.needed = 43_GiB}).devices == Positions{4});
    // CUDA shows a process one instance of a split GPU only.
    machine[0].parent = machine[1].parent = "GPU-0";
    CHECK(recommend_devices(machine, {.needed = 42_GiB}).devices == Positions{4});
    CHECK(recommend_devices({}).devices.empty());
    std::vector<DetectedDevice> const bare{found_processor(64_GiB, 40_GiB)};
    CHECK(recommend_devices(bare, {.needed = 1_GiB}).reason ==
          "cpu (a processor): 40.00 GiB to use, 1.00 GiB needed; there is no accelerator to use");
}
