// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/detect.hpp>

#include <doctest/doctest.h>

#include "fake_machine.hpp"

#include <string>

using namespace shardwise;
using shardwise::testing::FakeMachine;

namespace {

Detection detect(FakeMachine& machine) {
    auto found = detect_devices(machine.options());
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    return *std::move(found);
}

/// A node of the kernel's compute driver: a GPU on bus `bus`.
void put_node(FakeMachine const& machine, int number, int bus, std::string const& version,
              std::string const& unique_id) {
    auto const at = "/sys/class/kfd/kfd/topology/nodes/" + std::to_string(number);
    machine.put(at + "/gpu_id", std::to_string(40000 + number) + "\n");
    machine.put(at + "/properties",
                "cpu_cores_count 0\nsimd_count 1216\nsimd_per_cu 4\nvendor_id 4098\ndevice_id 29857\nlocation_id " +
                    std::to_string(bus << 8) + "\ndomain 0\ndrm_render_minor " + std::to_string(128 + number) +
                    "\ngfx_target_version " + version + "\nunique_id " + unique_id +
                    "\nmax_engine_clk_fcompute 2100\n");
}

void put_link(FakeMachine const& machine, int from, int to, int type, int megabytes) {
    machine.put(
        "/sys/class/kfd/kfd/topology/nodes/" + std::to_string(from) + "/io_links/" + std::to_string(to) + "/properties",
        "type " + std::to_string(type) + "\nnode_from " + std::to_string(from) + "\nnode_to " + std::to_string(to) +
            "\nweight 15\nmin_bandwidth 0\nmax_bandwidth " + std::to_string(megabytes) + "\n");
}

void put_processor_node(FakeMachine const& machine) {
    machine.put("/sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
    machine.put("/sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 64\nsimd_count 0\n");
}

/// Two MI300X by the kernel: node 2 before node 10 though "10" sorts first as text.
void put_kernel(FakeMachine const& machine) {
    put_processor_node(machine);
    put_node(machine, 2, 0x83, "90402", "11400000000000000001");
    put_node(machine, 10, 0x03, "90402", "2");
    put_link(machine, 2, 10, 11, 64000);
    put_link(machine, 10, 2, 11, 64000);
    put_link(machine, 2, 0, 2, 64000);
    for (std::string const bus : {"83", "03"}) {
        auto const at = "/sys/bus/pci/devices/0000:" + bus + ":00.0";
        machine.put(at + "/mem_info_vram_total", "206141652992\n");
        machine.put(at + "/mem_info_vram_used", "1000000000\n");
        machine.put(at + "/numa_node", bus == "83" ? "1\n" : "0\n");
        machine.put(at + "/max_link_speed", "32.0 GT/s PCIe\n");
        machine.put(at + "/max_link_width", "16\n");
    }
}

}  // namespace

TEST_CASE("AMD by the kernel alone: memory, names, UUIDs, xGMI, in HIP's order") {
    FakeMachine machine;
    put_kernel(machine);
    auto const found = detect(machine);
    REQUIRE(found.devices.size() == 3);
    auto const& gpu = found.devices[0];
    CHECK(gpu.id == "hip:0");
    CHECK(gpu.device.kind == DeviceKind::hip);
    CHECK(gpu.name == "AMD Instinct MI300X");
    CHECK(gpu.preset == "MI300X-192GB");
    CHECK(gpu.device.pci.view() == "0000:83:00.0");
    CHECK(gpu.device.memory == Bytes{206141652992});
    CHECK(gpu.device.memory_free == Bytes{205141652992});
    CHECK(gpu.device.architecture.view() == "gfx942");
    CHECK(gpu.device.uuid.view() == "GPU-9e34ef99a7740001");
    CHECK(gpu.device.numa == 1);
    CHECK(gpu.pcie_generation == 5);
    CHECK(gpu.pcie_lanes == 16);
    CHECK(found.devices[1].device.uuid.view() == "GPU-0000000000000002");
    CHECK(found.word_between(0, 1) == "XGMI");
    CHECK(gpu.device.link == Link{LinkType::infinity_fabric, 64e9, 5e-6});
}

TEST_CASE("AMD's variables hide devices found by the kernel") {
    FakeMachine machine;
    put_kernel(machine);
    machine.options().environment.rocr_visible_devices = "GPU-0000000000000002";
    auto const found = detect(machine);
    CHECK(found.devices[0].id == "hip:0");
    CHECK(found.devices[0].device.pci.view() == "0000:03:00.0");
    CHECK(found.devices[1].id == "GPU-9e34ef99a7740001");
    CHECK(found.devices[1].reason == "hidden by ROCR_VISIBLE_DEVICES=GPU-0000000000000002");
}

TEST_CASE("GPUs that a container may not read are not there; versions become gfx names") {
    FakeMachine machine;
    put_processor_node(machine);
    put_node(machine, 1, 0x10, "90010", "0");
    put_node(machine, 2, 0x11, "110000", "7");
    // The kernel refuses to open the files of other containers' GPUs; a folder cannot be read as a file either.
    machine.put("/sys/class/kfd/kfd/topology/nodes/3/gpu_id/nothing", "");
    auto const found = detect(machine);
    REQUIRE(found.devices.size() == 3);
    CHECK(found.devices[0].device.architecture.view() == "gfx90a");
    CHECK_MESSAGE(found.devices[0].device.uuid.empty(), "the number 0 is none");
    CHECK(found.devices[1].device.architecture.view() == "gfx1100");
    CHECK(found.word_between(0, 1) == "SYS");
    // 1216 / 4 units x 64 lanes x 2 operations x 2.1 GHz: no preset has this memory.
    CHECK(found.devices[0].device.peak.fp32 == doctest::Approx(81.7e12).epsilon(0.001));
}

TEST_CASE("AMD by amd_smi: three layouts of its structure, links by its words where the kernel has none") {
    FakeMachine machine;
    machine.amd(
        "gpu name=\"AMD Instinct MI300X\" serial=0x00000000deadbeef pci=0000:03:00.0 memory=206141652992 "
        "used=5000000000 numa=1\n"
        "gpu name=\"AMD Instinct MI300X\" serial=0xABCD000000000002 pci=0001:83:1f.7 memory=206141652992 layout=2\n"
        "gpu name=\"AMD Instinct MI210\" serial=77 pci=0000:c3:00.0 memory=68702699520 layout=1\n"
        "xgmi first=0 second=1 megabytes=64000\n");
    auto const found = detect(machine);
    REQUIRE(found.devices.size() == 4);
    CHECK(found.devices[0].id == "hip:0");
    CHECK(found.devices[0].name == "AMD Instinct MI300X");
    CHECK(found.devices[0].device.uuid.view() == "GPU-00000000deadbeef");
    CHECK(found.devices[0].device.memory_free == Bytes{201141652992});
    CHECK(found.devices[0].device.numa == 1);
    CHECK(found.devices[0].preset == "MI300X-192GB");
    CHECK(found.devices[1].device.uuid.view() == "GPU-abcd000000000002");
    CHECK(found.devices[1].device.pci.view() == "0001:83:1f.7");
    CHECK(found.devices[2].device.uuid.view() == "GPU-0000000000000077");
    CHECK(found.devices[2].name == "AMD Instinct MI210");
    CHECK(found.devices[2].preset == "MI210-64GB");
    CHECK(found.word_between(0, 1) == "XGMI");
    CHECK(found.word_between(0, 2) == "SYS");
    auto const topology = topology_of(found);
    CHECK(topology.between(0, 1) == Link{LinkType::infinity_fabric, 64e9, 5e-6});
    CHECK(topology.between(0, 2).type == LinkType::pcie);
}

TEST_CASE("amd_smi and the kernel agree on one list: HIP's order, and GPUs out of HIP's reach say so") {
    FakeMachine machine;
    put_kernel(machine);
    machine.amd(
        "gpu name=\"AMD Instinct MI300X\" serial=0x2 pci=0000:03:00.0 memory=206141652992\n"
        "gpu name=\"AMD Radeon\" serial=0x3 pci=0000:05:00.0 memory=1000\n"
        "gpu name=\"AMD Instinct MI300X\" serial=0x1 pci=0000:83:00.0 memory=206141652992\n");
    auto const found = detect(machine);
    REQUIRE(found.devices.size() == 4);
    CHECK(found.devices[0].device.pci.view() == "0000:83:00.0");
    CHECK_MESSAGE(found.devices[0].index == 2, "amd-smi's own number");
    CHECK(found.devices[1].device.pci.view() == "0000:03:00.0");
    CHECK(found.devices[2].reason ==
          "the kernel's compute driver (/sys/class/kfd) does not list it, so HIP cannot use it");
    CHECK(found.word_between(0, 1) == "XGMI");
}

TEST_CASE("Where amd_smi lacks the call for memory, another stands in; its own UUID where there is no serial number") {
    FakeMachine machine;
    machine.amd(
        "gpu name=A serial=none uuid=75a300ff-0000-1000-8011-aabbccddeeff pci=0000:03:00.0 memory=1073741824 "
        "used=1048576\n",
        "fake_amd_smi_without_memory");
    auto const found = detect(machine);
    CHECK(found.devices[0].device.memory == 1_GiB);
    CHECK(found.devices[0].device.memory_free == 1023_MiB);
    CHECK(found.devices[0].device.uuid.view() == "75a300ff-0000-1000-8011-aabbccddeeff");
}

TEST_CASE("A broken AMD driver is an error that names the call; a missing one is no device") {
    FakeMachine machine;
    machine.amd(
        "gpu name=A serial=1 pci=0000:03:00.0 memory=1000\ngpu name=A serial=2 pci=0000:04:00.0 memory=1000\n"
        "fail call=amdsmi_get_gpu_memory_total device=1 status=7\n");
    auto const found = detect_devices(machine.options());
    REQUIRE_FALSE(found);
    CHECK(found.error().code() == ErrorCode::backend_failure);
    CHECK(found.error().subject() == "amdsmi_get_gpu_memory_total");
    CHECK(found.error().reason() == "failed with API call failed on AMD device 1");
    machine.amd("fail call=amdsmi_init status=34\n");
    CHECK(detect(machine).devices.size() == 1);
}

TEST_CASE("Both vendors in one machine: each with the numbers of its runtime") {
    FakeMachine machine;
    machine.nvidia(shardwise::testing::machines::one_gpu);
    put_kernel(machine);
    auto const found = detect(machine);
    REQUIRE(found.devices.size() == 4);
    CHECK(found.devices[0].id == "cuda:0");
    CHECK(found.devices[1].id == "hip:0");
    CHECK(found.devices[2].id == "hip:1");
    CHECK_MESSAGE(found.devices[2].device.id == DeviceId::gpu(2), "device maps number all of them");
    CHECK(found.word_between(1, 2) == "XGMI");
    CHECK_MESSAGE(found.word_between(0, 1).empty(), "nobody tells");
}

TEST_CASE("An Apple chip has a GPU with 70 % of the memory") {
    auto const found = metal_device({.chip = "Apple M2 Ultra", .memory = 192_GiB, .cores = 24, .threads = 24});
    REQUIRE(found);
    CHECK(found->id == "mps");
    CHECK(found->device.kind == DeviceKind::metal);
    CHECK(found->device.id == DeviceId::mps());
    CHECK(found->device.memory == Bytes{(192_GiB).count() / 10 * 7});
    CHECK(found->preset == "M2-Ultra-192GB");
    CHECK(found->device.bandwidth == 800e9);
    CHECK_FALSE(metal_device({.chip = "Intel(R) Core(TM) i7", .memory = 16_GiB, .cores = 4, .threads = 8}));
    CHECK_FALSE(metal_device({}));
}
