// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/description.hpp>
#include <shardwise/hardware/presets.hpp>
#include <shardwise/hardware/spec.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>

using namespace shardwise;
using shardwise::testing::TemporaryFolder;

namespace {

Topology read(std::string_view text) {
    auto const topology = read_topology(text, "machine.json");
    if (!topology) FAIL(topology.error().message());
    return *topology;
}

Error refusal(std::string_view text) {
    auto const topology = read_topology(text, "machine.json");
    CAPTURE(std::string(text));
    REQUIRE_FALSE(topology.has_value());
    CHECK(topology.error().subject() == "machine.json");
    return topology.error();
}

/// The error for a description of one device with these members.
Error refusal_of_device(std::string_view members) {
    return refusal(R"({"schema":"shardwise.hardware/1","devices":[{)" + std::string(members) + "}]}");
}

void check_equal(Topology const& read, Topology const& written) {
    REQUIRE(read.devices.size() == written.devices.size());
    for (std::size_t i = 0; i < read.devices.size(); ++i) {
        // What a file says is a limit, whoever wrote it.
        auto device = written.devices[i];
        device.is_whole_memory = false;
        CHECK(read.devices[i] == device);
    }
    REQUIRE(read.links.size() == written.links.size());
    for (std::size_t i = 0; i < read.links.size(); ++i) CHECK(read.links[i] == written.links[i]);
}

/// A device with something in every field; doubles of any magnitude.
Device any_device(std::mt19937_64& random, std::int32_t index) {
    auto const number = [&random] {
        return std::ldexp(std::uniform_real_distribution<double>(1, 2)(random), static_cast<int>(random() % 79));
    };
    auto const rates = [&number] {
        return PeakRates{number(), number(), number(), number(), number(), number(), number(), number()};
    };
    Device device{};
    device.name.assign("GPU " + std::to_string(random()));
    device.kind = random() % 2 == 0 ? DeviceKind::cuda : DeviceKind::hip;
    device.id = DeviceId::gpu(index);
    device.memory = Bytes{static_cast<std::int64_t>(random() % (1ULL << 48U))};
    device.memory_free = Bytes{device.memory.count() / 3};
    device.bandwidth = number();
    device.peak = rates();
    device.link = {LinkType::nvlink, number(), number() * 1e-30, index % 2 == 0};
    device.node = static_cast<std::int32_t>(random() % 100);
    device.network = {LinkType::infiniband, number(), 5e-324};
    device.architecture = "sm_90";
    device.uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef";
    device.pci = "00000000:3B:00.0";
    device.numa = static_cast<std::int32_t>(random() % 8);
    device.measured = {rates(), number(), 0.1 + 0.2, rates(), {}};
    for (std::size_t i = 0; i < random() % 13; ++i) {
        auto const kv = i % 3 == 0 ? Dtype::f32 : i % 3 == 1 ? Dtype::bf16 : Dtype::i8;
        auto const rate = [&] { return 1.0 + std::abs(number()); };
        device.measured.attention[i] = {kv, static_cast<std::int64_t>(i) + 1, rate(), rate()};
    }
    return device;
}

}  // namespace

TEST_CASE("topology_json: every field of every device and link is read back as it was, to the last bit") {
    std::mt19937_64 random(7);
    Topology topology;
    for (std::int32_t i = 0; i < 20; ++i) topology.devices.push_back(any_device(random, 3 * i));
    auto const others = parse_device_spec("cpu:64GiB+disk");
    topology.devices.append(others->begin(), others->end());
    topology.links.push_back({0, 19, {LinkType::pcie, 1e9 / 3.0, 1e-6 / 3.0}});
    topology.links.push_back({20, 4, {LinkType::none, 0.0, 0.0}});
    check_equal(read(topology_json(topology)), topology);
}

TEST_CASE("topology_json: every preset and SPEC is read back as it was") {
    for (auto const& preset : device_presets) {
        Topology topology;
        topology.devices.push_back(preset.device);
        check_equal(read(topology_json(topology)), topology);
    }
    for (auto const* spec : {"4x(8xH100-80GB)+cpu:1024GiB", "mps:96GiB", "2xT4+disk", "gpu:10GB"}) {
        auto const topology = parse_topology(spec);
        REQUIRE(topology.has_value());
        check_equal(read(topology_json(*topology)), *topology);
    }
}

TEST_CASE("write_topology_file: what is written is what read_topology_file reads") {
    TemporaryFolder const folder;
    auto const topology = parse_topology("2x(2xMI300X)");
    REQUIRE(write_topology_file(folder / "machine.json", *topology));
    auto const again = read_topology_file(folder / "machine.json");
    REQUIRE(again.has_value());
    check_equal(*again, *topology);
    CHECK(read_topology_file(folder / "absent.json").error().code() == ErrorCode::file_not_found);
    CHECK(write_topology_file(folder / "absent/machine.json", *topology).error().code() == ErrorCode::file_unwritable);
}

TEST_CASE("read_topology: a preset, a count and the fields that differ are a machine") {
    auto const machine = read(R"({"schema": "shardwise.hardware/1", "note": "the one in the corner",
        "devices": [{"kind": "disk", "memory": "2000GB"}, {"kind": "cpu", "memory": "64GiB", "numa": 0},
                    {"preset": "a100_80gb", "count": 2, "memory_free": "70GiB", "peak": {"fp16": 1e14}},
                    {"id": 7, "preset": "T4", "link": {"bandwidth": 8e9}, "note": "in the short slot"}],
        "links": [{"between": [7, "cpu"], "type": "pcie", "bandwidth": 4e9, "latency": 1e-5}]})");
    REQUIRE(machine.devices.size() == 5);
    CHECK(machine.accelerators().size() == 3);
    CHECK(machine.devices[1].id == DeviceId::gpu(1));
    CHECK(machine.devices[1].available() == 70_GiB);
    CHECK(machine.devices[1].peak.fp16 == 1e14);
    CHECK(machine.devices[1].peak.bf16 == 312e12);
    CHECK(machine.devices[2].id == DeviceId::gpu(7));
    CHECK(machine.devices[2].link == Link{LinkType::pcie, 8e9, 10e-6});
    CHECK(machine.devices[3].id == DeviceId::cpu());
    CHECK(machine.devices[4].id == DeviceId::disk());
    CHECK(machine.between(2, 3).bandwidth == 4e9);
    CHECK(machine.between(0, 2).bandwidth == 8e9);
}

TEST_CASE("read_topology: a field that does not exist is refused with the name that was meant") {
    auto const error = refusal_of_device(R"("preset": "T4", "link": {"bandwith": 1e9})");
    CHECK(error.code() == ErrorCode::unknown_name);
    CHECK(error.message() ==
          "machine.json: devices[0].link.bandwith: is no field of a description; did you mean bandwidth?");
    CHECK(refusal(R"({"schema":"shardwise.hardware/1","devices":[],"device":[]})").advice() == "did you mean devices?");
    CHECK(refusal_of_device(R"("kind": "cuda", "memory": 1, "measured": {"fp16": 1})").place() ==
          "devices[0].measured.fp16");
}

TEST_CASE("read_topology: what is missing or impossible is refused by file, field and reason") {
    using Case = std::pair<std::string, char const*>;  // members, place
    auto const attention_row = [](std::string const& row) {
        return R"("preset": "T4", "measured": {"attention": [{)" + row + "}]}";
    };
    auto const same = R"("kv": "bf16", "context": 8, "decode": 1e9, "prefill": 1e9)";
    auto const twice = attention_row(std::string(same) + "},{" + same);
    std::string rows;
    for (int i = 1; i <= 13; ++i) {
        rows += (i > 1 ? "},{" : "") + std::string(R"("kv": "bf16", "decode": 1, "prefill": 1, "context": )") +
                std::to_string(i);
    }
    auto const many = attention_row(rows);
    auto const sum = [](std::string const& row) { return R"("preset": "T4"}], "all_reduce": [{)" + row; };
    for (auto const& [first, second] :
         {Case{R"("memory": 1)", "devices[0].kind"},
          Case{R"("kind": "cuda")", "devices[0].memory"},
          Case{R"("kind": "gpu", "memory": 1)", "devices[0].kind"},
          Case{R"("preset": "T5")", "devices[0].preset"},
          Case{R"("preset": "2xT4")", "devices[0].preset"},
          Case{R"("preset": 4)", "devices[0].preset"},
          Case{R"("preset": "T4", "memory": -1)", "devices[0].memory"},
          Case{R"("preset": "T4", "memory": 1.5)", "devices[0].memory"},
          Case{R"("preset": "T4", "memory": "lots")", "devices[0].memory"},
          Case{R"("preset": "T4", "memory": 18446744073709551615)", "devices[0].memory"},
          Case{R"("preset": "T4", "memory": 1000000000000000)", "devices[0].memory"},
          Case{R"("preset": "T4", "memory_free": "16GiB")", "devices[0].memory_free"},
          Case{R"("preset": "T4", "bandwidth": -1)", "devices[0].bandwidth"},
          Case{R"("preset": "T4", "bandwidth": 1e300)", "devices[0].bandwidth"},
          Case{R"("preset": "T4", "bandwidth": null)", "devices[0].bandwidth"},
          Case{R"("preset": "T4", "bandwidth": 0.9)", "devices[0].bandwidth"},
          Case{R"("preset": "T4", "bandwidth": 1e-300)", "devices[0].bandwidth"},
          Case{R"("preset": "T4", "peak": {"fp16": 0.065})", "devices[0].peak.fp16"},
          Case{R"("preset": "T4", "measured": {"products": {"fp16": 0.5}})", "devices[0].measured.products.fp16"},
          Case{R"("preset": "T4", "measured": {"one_row": {"int8": 0.5}})", "devices[0].measured.one_row.int8"},
          Case{R"("preset": "T4", "measured": {"bandwidth": 0.3})", "devices[0].measured.bandwidth"},
          Case{R"("preset": "T4", "measured": {"attention": {}})", "devices[0].measured.attention"},
          Case{R"("preset": "T4", "measured": {"attention": [{"kv": "fp32", "context": 8, "decode": 1e9}]})",
               "devices[0].measured.attention[0].prefill"},
          Case{attention_row(R"("kv": "fp8", "context": 8, "decode": 1e9, "prefill": 1e9)"),
               "devices[0].measured.attention[0].kv"},
          Case{attention_row(R"("kv": 8, "context": 8, "decode": 1e9, "prefill": 1e9)"),
               "devices[0].measured.attention[0].kv"},
          Case{attention_row(R"("kv": "bf16", "context": 0, "decode": 1e9, "prefill": 1e9)"),
               "devices[0].measured.attention[0].context"},
          Case{attention_row(R"("kv": "bf16", "context": 8, "decode": 0, "prefill": 1e9)"),
               "devices[0].measured.attention[0].decode"},
          Case{attention_row(R"("kv": "bf16", "context": 8, "decode": 1e9, "prefill": -1)"),
               "devices[0].measured.attention[0].prefill"},
          Case{attention_row(R"("kv": "bf16", "context": 8, "decode": 1e9, "prefill": 1e9, "launch": 1)"),
               "devices[0].measured.attention[0].launch"},
          Case{twice, "devices[0].measured.attention[1].context"},
          Case{sum(R"("ranks": 1, "bytes": 8, "one_shot": 1e-6, "two_shot": 1e-6)"), "all_reduce[0].ranks"},
          Case{sum(R"("ranks": 2, "bytes": 0, "one_shot": 1e-6, "two_shot": 1e-6)"), "all_reduce[0].bytes"},
          Case{sum(R"("ranks": 2, "bytes": 8, "one_shot": 0, "two_shot": 1e-6)"), "all_reduce[0].one_shot"},
          Case{sum(R"("ranks": 2, "bytes": 8, "one_shot": 1e-6, "two_shot": 1e9)"), "all_reduce[0].two_shot"},
          Case{sum(R"("ranks": 2, "bytes": 8, "one_shot": 1e-6)"), "all_reduce[0].two_shot"},
          Case{sum(R"("ranks": 2, "bytes": 8, "one_shot": 1, "two_shot": 1}, {"ranks": 2, "bytes": 8, )"
                   R"("one_shot": 2, "two_shot": 2)"),
               "all_reduce[1].bytes"},
          Case{sum(R"("ranks": 2, "devices": 3, "bytes": 8, "one_shot": 1, "two_shot": 1)"), "all_reduce[0].devices"},
          Case{sum(R"("ranks": 2, "devices": 0, "bytes": 8, "one_shot": 1, "two_shot": 1)"), "all_reduce[0].devices"},
          Case{sum(R"("ranks": 2, "bytes": 8, "one_shot": 1, "two_shot": 1}, {"ranks": 2, "devices": 1, "bytes": 8, )"
                   R"("one_shot": 2, "two_shot": 2)"),
               "all_reduce[1].bytes"},
          Case{many, "devices[0].measured.attention"},
          Case{R"("preset": "T4", "link": {"type": "pcie", "bandwidth": 0.016})", "devices[0].link.bandwidth"},
          Case{R"("preset": "T4", "peak": 1)", "devices[0].peak"},
          Case{R"("preset": "T4", "network": {"bandwidth": 1})", "devices[0].network.type"},
          Case{R"("preset": "T4", "link": {"type": "nvlnk"})", "devices[0].link.type"},
          Case{R"("preset": "T4", "node": -1)", "devices[0].node"},
          Case{R"("preset": "T4", "node": 1e3)", "devices[0].node"},
          Case{R"("preset": "T4", "name": "a name of more than thirty-two bytes")", "devices[0].name"},
          Case{R"("preset": "T4", "name": "\u001b[31m")", "devices[0].name"},
          Case{R"("preset": "T4", "uuid": 7)", "devices[0].uuid"},
          Case{R"("preset": "T4", "id": -1)", "devices[0].id"},
          Case{R"("preset": "T4", "id": "cpu")", "devices[0].id"},
          Case{R"("preset": "T4", "id": "mps")", "devices[0].id"},
          Case{R"("kind": "disk", "memory": 1, "id": 0)", "devices[0].id"},
          Case{R"("preset": "T4", "link": {"type": "pcie", "measured": 1})", "devices[0].link.measured"},
          Case{R"("preset": "T4", "count": 0)", "devices[0].count"},
          Case{R"("preset": "T4", "count": 2, "id": 3)", "devices[0].count"},
          Case{R"("kind": "cpu", "memory": 1, "count": 2)", "devices[0].count"},
          Case{R"("preset": "T4", "note": 1)", "devices[0].note"},
          Case{R"("preset": "T4"}, {"preset": "T4", "id": 0)", "devices[1].id"},
          Case{R"("kind": "cpu", "memory": 1}, {"kind": "cpu", "memory": 1)", "devices[1].id"}}) {
        // A binding cannot be captured by clang 14.
        std::string const members = first;
        std::string const place = second;
        CAPTURE(members);
        auto const error = refusal_of_device(members.c_str());
        CHECK(error.place() == place);
        CHECK_FALSE(error.reason().empty());
    }
    CHECK(refusal_of_device(R"("preset": "T4", "count": 16384}, {"preset": "T4")").code() ==
          ErrorCode::capacity_exceeded);
    CHECK(refusal_of_device(R"("preset": "T4", "bandwidth": 0.9)").reason() ==
          "must be 0 for unknown, or at least 1 per second");
    // Latencies are seconds.
    CHECK(read_topology(R"({"schema":"shardwise.hardware/1","devices":[{"preset":"T4","bandwidth":1,)"
                        R"("peak":{"fp16":0},"link":{"type":"pcie","bandwidth":0,"latency":1e-6},)"
                        R"("measured":{"launch":1e-6}}]})",
                        "machine.json"));
}

TEST_CASE("two_shot_from: two steps from the size on from which one is never faster, by ranks and devices") {
    List<AllReduceTime> times;
    CHECK_FALSE(two_shot_from(times, 4, 1));
    for (auto const& time :
         {AllReduceTime{4, 1024, 1.0, 2.0}, AllReduceTime{4, 8192, 3.0, 2.0}, AllReduceTime{4, 2048, 2.0, 1.0},
          AllReduceTime{4, 4096, 2.0, 2.5}, AllReduceTime{4, 16384, 5.0, 5.0}, AllReduceTime{8, 64, 2.0, 1.0},
          AllReduceTime{2, 64, 1.0, 2.0}, AllReduceTime{4, 1024, 3.0, 2.0, 4}})
        times.push_back(time);
    CHECK(two_shot_from(times, 4, 1) == 8192);
    CHECK(two_shot_from(times, 4, 4) == 1024);
    CHECK(two_shot_from(times, 8, 1) == 64);
    CHECK(two_shot_from(times, 2, 1) == std::numeric_limits<std::int64_t>::max());
    CHECK_FALSE(two_shot_from(times, 3, 1));
    CHECK_FALSE(two_shot_from(times, 4, 2));
    Topology machine{{presets::four_a100_40gb[0]}, {}, times};
    auto const again = read(topology_json(machine));
    CHECK(again.all_reduce == times);
}

TEST_CASE("read_topology: a cpu with a number is a rank, planned for like an accelerator") {
    auto const machine = read(R"({"schema":"shardwise.hardware/1","devices":[
        {"kind":"cpu","memory":"4GiB","id":0},{"kind":"cpu","memory":"4GiB","id":1},{"kind":"cpu","memory":"8GiB"}]})");
    CHECK(machine.accelerators().size() == 2);
    CHECK(machine.devices[1].id == DeviceId::gpu(1));
    CHECK(machine.devices[1].kind == DeviceKind::cpu);
    CHECK(machine.devices[2].id == DeviceId::cpu());
}

TEST_CASE("read_topology: a link joins two different devices of the description, once") {
    auto const refused = [](std::string_view links) {
        return std::string(
            refusal(R"({"schema":"shardwise.hardware/1","devices":[{"preset":"T4","count":2}],"links":[)" +
                    std::string(links) + "]}")
                .place());
    };
    CHECK(refused(R"({"type":"pcie"})") == "links[0].between");
    CHECK(refused(R"({"between":[0,1]})") == "links[0].type");
    for (auto const* ends : {"[0]", "[0,0]", "[0,2]", "[0,1,0]", "[0,\"cpu\"]", "[]", "0", "{}", "[0,1.0]"}) {
        CHECK(refused(R"({"type":"pcie","between":)" + std::string(ends) + "}") == "links[0].between");
    }
    CHECK(refused(R"({"type":"pcie","between":[0,1]},{"type":"nvlink","between":[1,0]})") == "links[1].between");
}

TEST_CASE("read_topology: other documents are refused for what they are") {
    CHECK(refusal("").code() == ErrorCode::malformed_file);
    CHECK(refusal("[]").code() == ErrorCode::malformed_file);
    CHECK(refusal("{}").message() == "machine.json: schema: is missing");
    CHECK(refusal(R"({"schema":"shardwise.hardware/2","devices":[]})").code() == ErrorCode::unsupported);
    CHECK(refusal(R"({"schema":"shardwise.map/1"})").code() == ErrorCode::unsupported);
    CHECK(refusal(R"({"schema":"shardwise.hardware/1"})").code() == ErrorCode::missing_field);
    CHECK(refusal(R"({"schema":"shardwise.hardware/1","devices":{}})").place() == "devices");
    CHECK(refusal(R"({"schema":"shardwise.hardware/1","devices":[7]})").place() == "devices[0]");
    CHECK(refusal(R"({"schema":"shardwise.hardware/1","devices":[],"devices":[]})").place() == "devices");
    CHECK(refusal(R"({"hidden_size": 4096})").place() == "schema");
}

TEST_CASE("docs/reference/description-file.md: its example is read, and it names every field that is written") {
    auto const text = *read_text_file(SHARDWISE_SOURCE_DIR "/docs/reference/description-file.md", 1 << 20U);
    auto const begin = text.find("```json\n") + 8;
    auto const machine = read(std::string_view{text}.substr(begin, text.find("```", begin) - begin));
    CHECK(machine.accelerators().size() == 9);
    CHECK(machine.devices[8].measured.bandwidth == 1.05e12);
    CHECK(machine.between(0, 8).bandwidth == 1.6e10);
    CHECK(machine.between(0, 4).type == LinkType::infiniband);

    auto const written = topology_json(machine);
    for (auto at = written.find('"'); at != std::string::npos;) {
        auto const end = written.find('"', at + 1);
        auto const key = written.substr(at + 1, end - at - 1);
        CAPTURE(key);
        if (written[end + 1] == ':') CHECK(text.find("`" + key + "`") != std::string::npos);
        at = written.find('"', end + 1);
    }
}
