// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/spec.hpp>

#include <doctest/doctest.h>

namespace {

using namespace shardwise;

static_assert(presets::four_a100_40gb.size() == 4);
static_assert(presets::four_a100_40gb[3].id == DeviceId::gpu(3));
static_assert(find_device_preset("rtx4090")->memory == 24564_MiB);

TEST_CASE("parse_device_spec: counts, kinds and nodes as the interface writes them") {
    auto const four = parse_device_spec("4xA100-40GB");
    REQUIRE(four.has_value());
    CHECK(four->size() == 4);
    CHECK((*four)[3].id == DeviceId::gpu(3));
    CHECK((*four)[3].memory == 40_GiB);

    auto const mixed = parse_device_spec("2xA100-80GB+2xRTX4090");
    REQUIRE(mixed.has_value());
    CHECK((*mixed)[1].memory == 80_GiB);
    CHECK((*mixed)[2].memory == 24564_MiB);
    CHECK((*mixed)[3].id == DeviceId::gpu(3));

    auto const cluster = parse_device_spec("4x(8xH100-80GB)");
    REQUIRE(cluster.has_value());
    CHECK(cluster->size() == 32);
    CHECK((*cluster)[0].node == 0);
    CHECK((*cluster)[31].node == 3);
    CHECK((*cluster)[31].id == DeviceId::gpu(31));

    auto const unequal = parse_device_spec("(2xT4)+2x(L4)");
    REQUIRE(unequal.has_value());
    CHECK((*unequal)[1].node == 0);
    CHECK((*unequal)[2].node == 1);
    CHECK((*unequal)[3].node == 2);
}

TEST_CASE("parse_device_spec: cpu and disk come last wherever they are written") {
    auto const devices = parse_device_spec("disk+cpu:64GiB+A100-40GB");
    REQUIRE(devices.has_value());
    CHECK((*devices)[0].id == DeviceId::gpu(0));
    CHECK((*devices)[1].id == DeviceId::cpu());
    CHECK((*devices)[1].memory == 64_GiB);
    CHECK((*devices)[2].id == DeviceId::disk());
}

TEST_CASE("parse_device_spec: a wrong name is answered with the closest one") {
    auto const devices = parse_device_spec("4xA100-40G");
    REQUIRE(!devices.has_value());
    CHECK(devices.error().code() == ErrorCode::no_such_device);
    CHECK(devices.error().advice().find("did you mean A100-40GB") == 0);
}

TEST_CASE("parse_device_spec: a name that is a part of presets' names, or holds one, is answered with those") {
    auto const meant = [](std::string_view spec) {
        auto const devices = parse_device_spec(spec);
        REQUIRE(!devices.has_value());
        CHECK(devices.error().code() == ErrorCode::no_such_device);
        return std::string(devices.error().advice());
    };
    CHECK(meant("5090") == "did you mean RTX5090?");
    CHECK(meant("2x4090+cpu:64GiB") == "did you mean RTX4090?");
    CHECK(meant("GeForce RTX 4090") == "did you mean RTX4090?");
    CHECK(meant("NVIDIA L4") == "did you mean L4?");
    CHECK(meant("RTX 4080 Super") == "did you mean RTX4080?");
    CHECK(meant("4060") == "did you mean RTX4060Ti-16GB?");
    CHECK(meant("6000") == "did you mean A6000, RTX6000-Ada or RTX-PRO-6000-96GB?");
    CHECK(meant("A100-SXM4-40GB") == "did you mean A100-40GB or A100-80GB?");
    CHECK(meant("Instinct MI300X") == "did you mean MI300X-192GB?");
    CHECK(meant("RTX409") == "did you mean RTX4090?");
    // Two letters, or a number cut in two, mean nothing.
    CHECK(meant("gb").find("did you mean GB200-186GB") == 0);
    CHECK(parse_device_spec("1x509").error().code() == ErrorCode::invalid_argument);
    CHECK(parse_device_spec("RTX 5090").value()[0].name == FixedText<32>{"RTX5090"});
    CHECK(parse_device_spec("2x3xT4").error().code() == ErrorCode::invalid_argument);
    CHECK(parse_device_spec("64").error().code() == ErrorCode::invalid_argument);
}

TEST_CASE("parse_device_spec: names forgive case and separators; one that several devices share is answered with all") {
    auto const devices = parse_device_spec("2xa100_40gb+H100+rtx 4090:20GiB");
    REQUIRE(devices.has_value());
    CHECK((*devices)[1].name == FixedText<32>{"A100-40GB"});
    CHECK((*devices)[2].name == FixedText<32>{"H100-80GB"});
    CHECK((*devices)[3].memory == 20_GiB);
    auto const several = parse_device_spec("8xA100");
    REQUIRE(!several.has_value());
    CHECK(several.error().code() == ErrorCode::no_such_device);
    CHECK(several.error().message() == "devices: A100: is several devices; write A100-40GB or A100-80GB");
    CHECK(parse_device_spec("warp-drive").error().advice().find("gpu:24GiB") != std::string_view::npos);
}

TEST_CASE("parse_device_spec: broken texts are refused, never misread") {
    for (auto const* text : {"", "+", "4x", "0xT4", "cpu", "gpu", "2xcpu:1GB", "cpu:1GB+cpu:1GB", "2x(T4", "T4)",
                             "(())", "4xA100-40GB+", "T4:lots", "((((((T4))))))"}) {
        CAPTURE(text);
        auto const devices = parse_device_spec(text);
        REQUIRE(!devices.has_value());
        // Broken text is the caller's mistake; only a whole name that is unknown is a missing device.
        CHECK(devices.error().code() == ErrorCode::invalid_argument);
    }
}

TEST_CASE("parse_device_spec: a count beyond any cluster is refused, so is a negative one or a second one") {
    CHECK(parse_device_spec("99999999999999999999xT4").error().code() == ErrorCode::capacity_exceeded);
    CHECK(parse_device_spec("16385xT4").error().reason() == "names more devices than are planned for: at most 16384");
    CHECK(parse_device_spec("16384xT4").has_value());
    for (std::string_view const text : {"-1xT4", "-T4", "4x8xH100-80GB", "2x(4x8xT4)", "8H100-80GB"}) {
        CAPTURE(text);
        auto const devices = parse_device_spec(text);
        REQUIRE_FALSE(devices);
        CHECK(devices.error().code() == ErrorCode::invalid_argument);
    }
}

TEST_CASE("parse_topology: devices of a node speak over their links, those of two nodes over the network") {
    auto const cluster = parse_topology("2x(8xH100-80GB)+cpu:64GiB");
    REQUIRE(cluster.has_value());
    CHECK(cluster->accelerators().size() == 16);
    CHECK(cluster->links.empty());
    CHECK(cluster->between(0, 7).type == LinkType::nvlink);
    CHECK(cluster->between(0, 7).bandwidth == 450e9);
    CHECK(cluster->between(7, 8).type == LinkType::infiniband);
    CHECK(cluster->between(7, 8).bandwidth == 50e9);
    // Of two different devices the slower link counts; without a reference node there is the default network.
    auto const mixed = parse_topology("(A100-80GB+RTX4090)+(T4)");
    REQUIRE(mixed.has_value());
    CHECK(mixed->between(0, 1).type == LinkType::pcie);
    CHECK(mixed->between(1, 2) == default_network);
    CHECK(parse_topology("4xA100-40G").error().code() == ErrorCode::no_such_device);
}

}  // namespace
