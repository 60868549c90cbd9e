// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/find_device.hpp>

#include <doctest/doctest.h>

#include "found_devices.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;
using shardwise::testing::found_device;
using shardwise::testing::mixed_machine;

namespace {

using Positions = std::vector<std::size_t>;

DeviceAnswer answer(std::vector<DetectedDevice> const& machine, std::string_view word) {
    auto const answers = check_devices(machine, word);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].word == word);
    CHECK(answers[0].is_available == answers[0].reason.empty());
    return answers[0];
}

}  // namespace

TEST_CASE("check_devices: finds a device by number, runtime's number, UUID, its beginning, and PCI address") {
    auto const machine = mixed_machine();
    auto const position = [&machine](std::string_view word) {
        auto const found = answer(machine, word);
        return found.is_available ? found.position : -1;
    };
    CHECK(position("0") == 0);
    CHECK(position("gpu:1") == 1);
    CHECK(position("2") == 3);
    CHECK(position("cuda:1") == 1);
    CHECK(position("CUDA:0") == 0);
    CHECK(position("hip:0") == 3);
    CHECK(position("rocm:0") == 3);
    CHECK(position("cpu") == 4);
    CHECK(position("GPU-3f2a0000-0000-0000-0000-000000000000") == 0);
    CHECK(position("GPU-9") == 1);
    CHECK(position("gpu-3f2") == 0);
    CHECK(position("00000000:3B:00.0") == 0);
    CHECK(position("af:00.0") == 1);
    CHECK(position("0000:af:00.0") == 1);
}

TEST_CASE("check_devices: says why a device is not available") {
    auto const machine = mixed_machine();
    auto const reason = [&machine](std::string_view word) { return answer(machine, word).reason; };
    CHECK(reason("GPU-3fa") == "is hidden by CUDA_VISIBLE_DEVICES");
    CHECK(answer(machine, "GPU-3fa").position == 2);
    CHECK(answer(machine, "3").position == 2);
    CHECK(reason("GPU-3f") == "is the beginning of several UUIDs");
    CHECK(reason("cuda:2") ==
          "is not a device: there are 2 of its kind and 1 not available (is hidden by CUDA_VISIBLE_DEVICES)");
    CHECK(reason("hip:1") == "is not a device: there are 1 of its kind");
    CHECK(reason("9") == "is not a device: there are 3 that may be used");
    CHECK(reason("af:00.1") == "has no device at this PCI address");
    CHECK(answer(machine, "").position == -1);
    for (auto const* word :
         {"cuda:", "cuda:x", "cuda:-1", "cuda:99999999999", "mps", "tpu:0", ":", "::.", "-1", "1.5"}) {
        CHECK(answer(machine, word).position == -1);
    }
}

TEST_CASE("check_devices: cuda means AMD's devices where there are no others, as in PyTorch for ROCm") {
    std::vector<DetectedDevice> const machine{found_device("hip:0", "MI300X", 180_GiB, 0),
                                              found_device("hip:1", "MI300X", 180_GiB, 1)};
    CHECK(answer(machine, "cuda:1").position == 1);
}

TEST_CASE("select_devices: gives positions in the order of the words, or the first error") {
    auto const machine = mixed_machine();
    CHECK(*select_devices(machine, "cuda:1, 0,cpu") == Positions{1, 0, 4});
    auto const hidden = select_devices(machine, "cuda:0,GPU-3fa9");
    REQUIRE_FALSE(hidden.has_value());
    CHECK(hidden.error().code() == ErrorCode::no_such_device);
    CHECK(hidden.error().message() ==
          "devices: GPU-3fa9: is hidden by CUDA_VISIBLE_DEVICES; available: cuda:0, cuda:1, hip:0, cpu");
    CHECK(select_devices(machine, "cuda:0,GPU-3f2a").error().reason() == "is named before, as cuda:0");
    CHECK_FALSE(select_devices(machine, "").has_value());
    CHECK_FALSE(select_devices(machine, "0,,1").has_value());
    CHECK(select_devices({}, "0").error().advice() == "this machine has none that may be used");
    // A product's number is no index.
    CHECK(select_devices(machine, "5090").error().advice() == "did you mean RTX5090?");
    CHECK(select_devices(machine, "10").error().advice() == "available: cuda:0, cuda:1, hip:0, cpu");
    CHECK(select_devices(machine, "123").error().advice() == "available: cuda:0, cuda:1, hip:0, cpu");
}
