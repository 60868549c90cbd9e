// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/visible_cuda.hpp>
#include <shardwise/hardware/visible_hip.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

using namespace shardwise;

namespace {

std::vector<DetectedDevice> gpus(std::vector<std::string> const& uuids) {
    std::vector<DetectedDevice> devices(uuids.size());
    for (std::size_t i = 0; i < uuids.size(); ++i) {
        devices[i].device.uuid.assign(uuids[i]);
        devices[i].device.pci.assign("00000000:0" + std::to_string(i) + ":00.0");
    }
    return devices;
}

/// "2 0"; "-" for none.
std::string numbers(Visibility const& visible) {
    std::string text;
    for (auto const position : visible.order) text += (text.empty() ? "" : " ") + std::to_string(position);
    return text.empty() ? "-" : text;
}

struct HipCase {
    std::optional<std::string> rocr, hip, cuda;
    std::string expected;
};

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES means what PyTorch, which follows NVIDIA's driver, makes of it") {
    std::vector<std::string> const uuids{"GPU-9e8d35e3-0001", "GPU-9e8d35e3-0002", "GPU-1f2e3d4c-0003",
                                         "GPU-aaaaaaaa-0004"};
    auto const devices = gpus(uuids);
    // Made by scripts/golden/visible_devices.py.
    std::ifstream table(SHARDWISE_SOURCE_DIR "/tests/golden/visible_devices/cuda.tsv");
    int cases = 0;
    for (std::string line; std::getline(table, line); ++cases) {
        auto const tab = line.find('\t');
        auto value = line.substr(0, tab);
        if (auto const escape = value.find("\\t"); escape != std::string::npos) value.replace(escape, 2, "\t");
        CAPTURE(value);
        VisibleEnvironment environment;
        environment.cuda_visible_devices = value;
        auto const visible = visible_cuda_devices(devices, environment);
        CHECK(numbers(visible) == line.substr(tab + 1));
        for (std::size_t i = 0; i < devices.size(); ++i) {
            bool const is_shown = numbers(visible).find(std::to_string(i)) != std::string::npos;
            CHECK(visible.reasons[i].empty() == is_shown);
        }
    }
    CHECK(cases == 214);
    CHECK(numbers(visible_cuda_devices(devices, {})) == "0 1 2 3");
}

TEST_CASE("Reasons say which entry hides a device") {
    auto const devices = gpus({"GPU-a", "GPU-b"});
    auto const reason = [&](std::string const& value) {
        VisibleEnvironment environment;
        environment.cuda_visible_devices = value;
        return visible_cuda_devices(devices, environment).reasons[1];
    };
    CHECK(reason("") == "hidden: CUDA_VISIBLE_DEVICES is empty");
    CHECK(reason("0") == "hidden by CUDA_VISIBLE_DEVICES=0");
    CHECK(reason("0,7,1") ==
          "hidden by CUDA_VISIBLE_DEVICES=0,7,1, which ends at its entry \"7\": there is no such device");
    CHECK(reason("0,-1,1") ==
          "hidden by CUDA_VISIBLE_DEVICES=0,-1,1, which ends at its entry \"-1\": there is no such device");
    CHECK(reason("1,1") == "hidden by CUDA_VISIBLE_DEVICES=1,1, which names \"1\" twice: CUDA then shows none");
    CHECK(reason("GPU-a,0") ==
          "hidden by CUDA_VISIBLE_DEVICES=GPU-a,0, which ends at its entry \"0\": there is no such device");
}

TEST_CASE(
    "ROCR_VISIBLE_DEVICES comes first, HIP_VISIBLE_DEVICES counts what it leaves, CUDA_VISIBLE_DEVICES stands in for "
    "that") {
    // Hexadecimal digits of either case; the first two begin alike.
    auto const devices =
        gpus({"GPU-1234567890abcdef", "GPU-1234567890abcdee", "GPU-77c0ffee00000000", "GPU-0000000000000009"});
    auto const none = std::optional<std::string>{};
    // By ROCR-Runtime's amd_filter_device.cpp and clr's rocdevice.cpp.
    std::vector<HipCase> const cases{
        {none, none, none, "0 1 2 3"},
        {"", none, none, "-"},
        {"2,0", none, none, "2 0"},
        {"0x2,01", none, none, "2 1"},
        {" 1 , 3 ", none, none, "1 3"},
        {"1,5,2", none, none, "1"},
        {"1,1,2", none, none, "1"},
        {"1,,2", none, none, "1"},
        {"1,2,", none, none, "1 2"},
        {"-1", none, none, "-"},
        {"1a", none, none, "-"},
        {"99999999999999999999999", none, none, "-"},
        {"GPU-77C0FFEE00000000", none, none, "2"},
        {"gpu-77c0", none, none, "2"},
        {"GPU-1234", none, none, "-"},
        {"GPU-1234567890abcdee,0", none, none, "1 0"},
        {"2,GPU-77", none, none, "2"},
        {"GPU-", none, none, "-"},
        {"GPU-77c0ffee000000001", none, none, "-"},
        {"0,1,2,3,9", none, none, "0 1 2 3"},
        {none, "2,0", none, "2 0"},
        {none, "", none, "0 1 2 3"},
        {none, "", "1", "1"},
        {none, none, "", "0 1 2 3"},
        {none, none, "3,2", "3 2"},
        {none, "1", "3,2", "1"},
        {none, "0,9,1", none, "0"},
        {none, "1,1,2", none, "1 2"},
        {none, "01", none, "-"},
        {none, " 1", none, "-"},
        {none, "1,", none, "1"},
        {none, ",1", none, "-"},
        {none, "-1", none, "-"},
        {none, "GPU-77c0ffee00000000,0", none, "2 0"},
        {none, "GPU-zz,0", none, "-"},
        {"3,1", "1", none, "1"},
        {"3,1", "0", none, "3"},
        {"3,1", "2", none, "-"},
        {"3,1", none, "1,0", "1 3"},
        {"", "0", none, "-"},
    };
    for (auto const& row : cases) {
        CAPTURE(row.rocr.value_or("(not set)"));
        CAPTURE(row.hip.value_or("(not set)"));
        CAPTURE(row.cuda.value_or("(not set)"));
        VisibleEnvironment const environment{row.cuda, {}, row.rocr, row.hip};
        auto const visible = visible_hip_devices(devices, environment);
        CHECK(numbers(visible) == row.expected);
        for (std::size_t i = 0; i < devices.size(); ++i) {
            bool const is_shown = row.expected.find(std::to_string(i)) != std::string::npos;
            CHECK(visible.reasons[i].empty() == is_shown);
        }
    }
}

TEST_CASE("Reasons say which of the variables hides a device of AMD's") {
    auto const devices = gpus({"GPU-1", "GPU-2", "GPU-3"});
    VisibleEnvironment environment;
    environment.rocr_visible_devices = "2,1";
    environment.hip_visible_devices = "0,7";
    auto const visible = visible_hip_devices(devices, environment);
    CHECK(visible.reasons[0] == "hidden by ROCR_VISIBLE_DEVICES=2,1");
    CHECK(visible.reasons[1] == "hidden by HIP_VISIBLE_DEVICES=0,7, which ends at its entry \"7\"");
    CHECK(visible.reasons[2].empty());
}
