// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/devices_of_ranks.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace shardwise;

DetectedDevice device(DeviceKind kind, std::string const& uuid, std::string const& near = "") {
    DetectedDevice out;
    out.device.kind = kind;
    out.device.uuid = std::string_view(uuid);
    out.id = "gpu:" + uuid;
    out.near_processors = near;
    return out;
}
Detection machine(std::vector<DetectedDevice> devices) {
    Detection out;
    out.devices = std::move(devices);
    return out;
}

TEST_CASE("devices_of_ranks: nothing is asked for, nothing is set") {
    auto const got = devices_of_ranks(machine({device(DeviceKind::cuda, "GPU-1")}), 2, false, false);
    REQUIRE(got);
    CHECK((got->devices.empty() && got->warnings.empty()));
}

TEST_CASE("devices_of_ranks: each rank is shown one device that may be used, by its UUID") {
    auto hidden = device(DeviceKind::cuda, "GPU-2");
    hidden.is_available = false;
    auto const all = machine({device(DeviceKind::cuda, "GPU-1"), hidden, device(DeviceKind::cuda, "MIG-3"),
                              device(DeviceKind::hip, "GPU-04"), device(DeviceKind::cpu, "")});
    auto const got = devices_of_ranks(all, 3, true, false);
    REQUIRE(got);
    REQUIRE(got->devices.size() == 3);
    using Variables = std::vector<std::pair<std::string, std::string>>;
    CHECK(got->devices[0].variables == Variables{{"CUDA_VISIBLE_DEVICES", "GPU-1"}});
    CHECK(got->devices[1].variables == Variables{{"CUDA_VISIBLE_DEVICES", "MIG-3"}});
    CHECK(got->devices[2].variables == Variables{{"ROCR_VISIBLE_DEVICES", "GPU-04"}});
    // HIP takes its numbers from what ROCr shows: "1" of the user's would then be none.
    CHECK(got->devices[2].unset ==
          std::vector<std::string>{"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"});
    CHECK(got->devices[2].name == "GPU-04");
}

TEST_CASE("devices_of_ranks: fewer devices than ranks are refused, none is a warning, one without a UUID is named") {
    auto const few = devices_of_ranks(machine({device(DeviceKind::cuda, "GPU-1")}), 2, true, false);
    REQUIRE_FALSE(few);
    CHECK(few.error().code() == ErrorCode::no_such_device);
    auto const none = devices_of_ranks(machine({device(DeviceKind::cpu, "")}), 2, true, true);
    REQUIRE(none);
    CHECK((none->devices.empty() && none->warnings.size() == 2));
    auto const nameless = devices_of_ranks(machine({device(DeviceKind::cuda, "")}), 1, true, false);
    REQUIRE_FALSE(nameless);
    CHECK(nameless.error().code() == ErrorCode::unsupported);
}

TEST_CASE("devices_of_ranks: ranks are bound to the near processors that this process may use") {
    cpu_set_t allowed;
    REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    std::int64_t first = 0;
    while (!CPU_ISSET(static_cast<std::size_t>(first), &allowed)) ++first;
    auto const number = std::to_string(first);
    auto const got =
        devices_of_ranks(machine({device(DeviceKind::cuda, "GPU-1", number + ",1000-1010"),
                                  device(DeviceKind::cuda, "GPU-2", "1000"), device(DeviceKind::cuda, "GPU-3")}),
                         4, false, true);
    REQUIRE(got);
    REQUIRE(got->devices.size() == 4);
    CHECK(got->devices[0].processors == std::vector<std::int64_t>{first});
    CHECK(got->devices[0].variables.empty());
    CHECK((got->devices[1].processors.empty() && got->devices[2].processors.empty()));
    // More ranks than devices share them.
    CHECK(got->devices[3].processors == std::vector<std::int64_t>{first});
    REQUIRE(got->warnings.size() == 2);
    CHECK(got->warnings[0].find("gpu:GPU-2 is near to none of the processors") == 0);
    CHECK(got->warnings[1].find("gpu:GPU-3 does not say") == 0);
}

}  // namespace
