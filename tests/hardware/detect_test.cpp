// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/detect.hpp>

#include <doctest/doctest.h>

#include "fake_machine.hpp"

#include <chrono>
#include <string>

using namespace shardwise;
using namespace std::string_literals;
using shardwise::testing::FakeMachine;
namespace machines = shardwise::testing::machines;

namespace {

/// The ids of the available devices: "cuda:0 cpu".
std::string available(Detection const& detection) {
    std::string ids;
    for (auto const& found : detection.devices) {
        if (found.is_available) ids += (ids.empty() ? "" : " ") + found.id;
    }
    return ids;
}

/// The UUIDs of the available GPUs, in order.
std::string visible(Detection const& detection) {
    std::string uuids;
    for (auto const& found : detection.devices) {
        if (!found.is_available || found.device.kind == DeviceKind::cpu) continue;
        uuids += (uuids.empty() ? "" : " ") + std::string(found.device.uuid.view());
    }
    return uuids;
}

std::string reason_of(Detection const& detection, std::string const& uuid) {
    for (auto const& found : detection.devices) {
        if (found.device.uuid.view() == uuid) return found.reason;
    }
    return "not found";
}

Detection detect(FakeMachine& machine) {
    auto found = detect_devices(machine.options());
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    return *std::move(found);
}

Error failure(FakeMachine& machine) {
    auto const found = detect_devices(machine.options());
    REQUIRE_FALSE(found);
    CHECK(found.error().code() == ErrorCode::backend_failure);
    return found.error();
}

}  // namespace

TEST_CASE("A machine without a driver has its processor and no error") {
    FakeMachine machine;
    auto const found = detect(machine);
    REQUIRE(found.devices.size() == 1);
    auto const& cpu = found.devices[0];
    CHECK(cpu.id == "cpu");
    CHECK(cpu.device.kind == DeviceKind::cpu);
    CHECK(cpu.name == "Test CPU");
    CHECK(cpu.device.memory == Bytes{65536 * 1024});
    CHECK(cpu.device.memory_free == Bytes{32768 * 1024});
    CHECK(cpu.is_available);
}

TEST_CASE("One NVIDIA GPU: what NVML tells, and the rates of its preset") {
    FakeMachine machine;
    machine.nvidia(machines::one_gpu);
    machine.put("/sys/bus/pci/devices/0000:01:00.0/numa_node", "3\n");
    auto const found = detect(machine);
    REQUIRE(available(found) == "cuda:0 cpu");
    auto const& gpu = found.devices[0];
    CHECK(gpu.name == "NVIDIA GeForce RTX 4090");
    CHECK(gpu.device.kind == DeviceKind::cuda);
    CHECK(gpu.device.memory == Bytes{25757220864});
    CHECK(gpu.device.memory_free == Bytes{24696061952});
    CHECK(gpu.device.architecture.view() == "sm_89");
    CHECK(gpu.device.uuid.view() == "GPU-11111111-aaaa");
    CHECK(gpu.device.pci.view() == "00000000:01:00.0");
    CHECK_MESSAGE(gpu.device.numa == 3, "the kernel knows better than the driver's affinity");
    CHECK(gpu.near_processors == "0-15");
    CHECK(gpu.preset == "RTX4090");
    CHECK(gpu.device.bandwidth == find_device_preset("RTX4090")->bandwidth);
    CHECK(gpu.device.link == Link{LinkType::pcie, 32e9, 10e-6});
}

TEST_CASE("A GPU without a preset has its rates from clocks and widths, or none") {
    FakeMachine machine;
    machine.nvidia(
        "gpu name=\"NVIDIA Future X\" uuid=GPU-1 pci=00000000:01:00.0 memory=1000 sm_clock=1410 memory_clock=1215 "
        "bus_width=5120 cores=6912 pcie_generation=5 pcie_width=8 numa=1\n"
        "gpu name=\"NVIDIA Silent\" uuid=GPU-2 memory=1000\n");
    auto const found = detect(machine);
    // The A100 of 40 GB has these: 1555 GB/s, 19.5 TFLOP/s (data sheet).
    CHECK(found.devices[0].device.bandwidth == doctest::Approx(1555.2e9));
    CHECK(found.devices[0].device.peak.fp32 == doctest::Approx(19.49e12).epsilon(0.001));
    CHECK(found.devices[0].device.numa == 1);
    CHECK(found.devices[1].device.bandwidth == 0.0);
    CHECK(found.devices[1].device.peak.fp32 == 0.0);
    CHECK(found.devices[1].device.numa == -1);
    CHECK(pcie_link(found.devices[0]).bandwidth == 32e9);
}

TEST_CASE("Eight GPUs on NVSwitch: NV12 between all, one link in common") {
    FakeMachine machine;
    machine.nvidia(machines::dgx());
    auto const found = detect(machine);
    REQUIRE(found.devices.size() == 9);
    CHECK(found.links.size() == 28);
    CHECK(found.word_between(0, 7) == "NV12");
    CHECK(found.word_between(3, 3) == "X");
    // 600 GB/s in both directions (A100 data sheet).
    CHECK(found.devices[5].device.link == Link{LinkType::nvlink, 300e9, 5e-6});
    auto const topology = topology_of(found);
    CHECK(topology.devices.size() == 9);
    CHECK(topology.links.empty());
    CHECK(topology.between(0, 7).bandwidth == 300e9);
    CHECK_MESSAGE(topology.between(0, 8).type == LinkType::pcie, "to the processor");
}

TEST_CASE("NVLink between some pairs, PCIe words between the others") {
    FakeMachine machine;
    machine.nvidia(
        "gpu name=\"Tesla V100-SXM2-16GB\" uuid=GPU-0 pci=00000000:06:00.0 memory=17179869184 capability=7.0 "
        "pcie_generation=3 pcie_width=16\n"
        "gpu name=\"Tesla V100-SXM2-16GB\" uuid=GPU-1 pci=00000000:07:00.0 memory=17179869184 capability=7.0 "
        "pcie_generation=3 pcie_width=16\n"
        "gpu name=\"Tesla V100-SXM2-16GB\" uuid=GPU-2 pci=00000000:0A:00.0 memory=17179869184 capability=7.0 "
        "pcie_generation=3 pcie_width=16\n"
        "gpu name=\"Tesla V100-SXM2-16GB\" uuid=GPU-3 pci=00000000:85:00.0 memory=17179869184 capability=7.0 "
        "pcie_generation=3 pcie_width=8\n"
        "nvlink first=0 second=1 count=2\nnvlink first=0 second=2 count=1\n"
        "ancestor first=1 second=2 level=10\nancestor first=0 second=3 level=50\nancestor first=1 second=3 level=40\n"
        "ancestor first=2 second=3 level=20\n");
    auto const found = detect(machine);
    CHECK(found.word_between(0, 1) == "NV2");
    CHECK(found.word_between(2, 0) == "NV1");
    CHECK(found.word_between(1, 2) == "PIX");
    CHECK(found.word_between(0, 3) == "SYS");
    CHECK(found.word_between(1, 3) == "NODE");
    CHECK(found.word_between(2, 3) == "PXB");
    auto const topology = topology_of(found);
    // What it has to all of them.
    CHECK(found.devices[0].device.link == Link{LinkType::pcie, 16e9, 10e-6});
    CHECK(topology.between(0, 1) == Link{LinkType::nvlink, 50e9, 5e-6});
    CHECK(topology.between(0, 2) == Link{LinkType::nvlink, 25e9, 5e-6});
    CHECK(topology.between(1, 2) == Link{LinkType::pcie, 16e9, 10e-6});
    CHECK(topology.between(2, 3) == Link{LinkType::pcie, 8e9, 10e-6});
}

TEST_CASE("Where NVML has no words for a way, the kernel's tree has") {
    FakeMachine machine;
    std::string rows;
    char const* const places[] = {
        "0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
        "0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0",
        "0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0",
        "0000:00/0000:00:02.0/0000:08:00.0",
        "0000:80/0000:80:01.0/0000:81:00.0",
        "0000:c0/0000:c0:01.0/0000:c1:00.0"};
    char const* const nodes[] = {"0", "0", "0", "0", "0", "1"};
    for (int i = 0; i < 6; ++i) {
        std::string const place = places[i];
        auto const address = place.substr(place.size() - 12);
        machine.link("/sys/bus/pci/devices/" + address, "../../../devices/pci" + place);
        machine.put("/sys/devices/pci" + place + "/numa_node", nodes[i]);
        rows += "gpu name=G uuid=GPU-" + std::to_string(i) + " memory=1000 pci=0000" + address + "\n";
    }
    machine.nvidia(rows);
    auto const found = detect(machine);
    CHECK(found.word_between(0, 1) == "PIX");
    CHECK(found.word_between(1, 2) == "PXB");
    CHECK(found.word_between(0, 3) == "PHB");
    CHECK(found.word_between(0, 4) == "NODE");
    CHECK(found.word_between(4, 5) == "SYS");
}

TEST_CASE("MIG: instances are devices, the split GPU is not, the whole one is") {
    FakeMachine machine;
    machine.nvidia(machines::mig);
    auto const found = detect(machine);
    CHECK(visible(found) == "MIG-11 MIG-12 GPU-a1");
    CHECK(available(found) == "cuda:0 cuda:1 cuda:2 cpu");
    CHECK(reason_of(found, "GPU-a0") == "is split by MIG: use its instances");
    auto const& large = found.devices[0];
    CHECK(large.name == "NVIDIA A100-SXM4-40GB MIG 3g.20gb");
    CHECK(large.parent == "GPU-a0");
    CHECK(large.gpu_instance == 1);
    CHECK(large.device.memory == Bytes{20937965568});
    CHECK(large.device.memory_free == Bytes{20900000000});
    // 3 of 7 slices of 312 TFLOP/s; half of the memory has about half of the bandwidth.
    CHECK(large.device.peak.bf16 == doctest::Approx(312e12 * 3 / 7));
    CHECK(large.device.bandwidth == doctest::Approx(1555e9 * 20937965568 / 42949672960));
    CHECK(found.warnings.size() >= 1);

    auto& variable = machine.options().environment.cuda_visible_devices;
    variable = "MIG-12";
    CHECK(visible(detect(machine)) == "MIG-12");
    variable = "MIG-1";
    CHECK_MESSAGE(visible(detect(machine)).empty(), "two instances begin so");
    variable = "MIG-GPU-a0/7/0";
    CHECK_MESSAGE(visible(detect(machine)) == "MIG-12", "the form of drivers before 470");
    variable = "0,1";
    CHECK_MESSAGE(visible(detect(machine)) == "MIG-11 GPU-a1", "of a split GPU CUDA takes the first instance");
    variable = "GPU-a1";
    CHECK(visible(detect(machine)) == "GPU-a1");
}

TEST_CASE("A GPU in MIG mode without instances cannot be used, and says so") {
    FakeMachine machine;
    machine.nvidia("gpu name=\"NVIDIA A100-SXM4-40GB\" uuid=GPU-0 memory=42949672960 mig=1\n");
    auto const found = detect(machine);
    CHECK(visible(found).empty());
    CHECK(reason_of(found, "GPU-0") == "MIG is on and it has no instance: make one, or turn MIG off");
}

TEST_CASE("Different GPUs are numbered fastest first, or by PCI where that is asked for") {
    FakeMachine machine;
    machine.nvidia(machines::mixed);
    auto& environment = machine.options().environment;
    CHECK(visible(detect(machine)) == "GPU-40900000-bbbb GPU-30900000-aaaa GPU-40000000-cccc");
    CHECK(detect(machine).warnings.size() == 1);
    environment.cuda_device_order = "PCI_BUS_ID";
    CHECK(visible(detect(machine)) == "GPU-30900000-aaaa GPU-40900000-bbbb GPU-40000000-cccc");
    CHECK(detect(machine).warnings.empty());
    environment.cuda_visible_devices = "2,0";
    auto const found = detect(machine);
    CHECK(visible(found) == "GPU-40000000-cccc GPU-30900000-aaaa");
    CHECK(available(found) == "cuda:0 cuda:1 cpu");
    CHECK(found.devices[2].id == "GPU-40900000-bbbb");
    CHECK(found.devices[2].reason == "hidden by CUDA_VISIBLE_DEVICES=2,0");
    environment.cuda_visible_devices = "GPU-40900,GPU-3";
    CHECK(visible(detect(machine)) == "GPU-40900000-bbbb GPU-30900000-aaaa");
    environment.cuda_visible_devices = "GPU-3,GPU-4";
    CHECK(visible(detect(machine)) == "GPU-30900000-aaaa");
    CHECK(reason_of(detect(machine), "GPU-40000000-cccc") ==
          "hidden by CUDA_VISIBLE_DEVICES=GPU-3,GPU-4, which ends at its entry \"GPU-4\": there is no such device");
}

TEST_CASE("Hidden GPUs stay in the list with the reason, and links follow devices to their new places") {
    FakeMachine machine;
    machine.nvidia(
        "gpu name=A uuid=GPU-0 pci=00000000:01:00.0 memory=1000\ngpu name=A uuid=GPU-1 pci=00000000:02:00.0 "
        "memory=1000\n"
        "gpu name=A uuid=GPU-2 pci=00000000:03:00.0 memory=1000\nnvlink first=1 second=2 count=3\n");
    machine.options().environment.cuda_visible_devices = "2,1";
    auto const found = detect(machine);
    CHECK(visible(found) == "GPU-2 GPU-1");
    CHECK(found.word_between(0, 1) == "NV3");
    CHECK(found.word_between(0, 2) == "SYS");
    machine.options().environment.cuda_visible_devices = "";
    CHECK(available(detect(machine)) == "cpu");
    CHECK(reason_of(detect(machine), "GPU-1") == "hidden: CUDA_VISIBLE_DEVICES is empty");
}

TEST_CASE("A GPU that this user may not open is there, is not available, and takes no number") {
    FakeMachine machine;
    machine.nvidia(
        "gpu name=A uuid=GPU-0 memory=1000\ngpu name=A uuid=GPU-1 memory=1000\n"
        "fail call=nvmlDeviceGetHandleByIndex_v2 device=0 status=4\n");
    machine.options().environment.cuda_visible_devices = "0";
    auto const found = detect(machine);
    CHECK(visible(found) == "GPU-1");
    REQUIRE(found.devices.size() == 3);
    CHECK(found.devices[1].reason.find("nvmlDeviceGetHandleByIndex_v2: no permission") != std::string::npos);
}

TEST_CASE("A broken NVIDIA driver is an error that names the call") {
    FakeMachine machine;
    auto const rows = "gpu name=A uuid=GPU-0 memory=1000\ngpu name=A uuid=GPU-1 memory=1000\n"s;
    SUBCASE("a call fails midway") {
        machine.nvidia(rows + "fail call=nvmlDeviceGetMemoryInfo device=1 status=15\n");
        CHECK(failure(machine).message() ==
              "nvmlDeviceGetMemoryInfo: failed with GPU is lost on NVIDIA device 1 (got 15); see what "
              "nvidia-smi and dmesg say; a restart or a matching driver usually helps");
    }
    SUBCASE("a call whose answer may be unknown finds the device broken") {
        machine.nvidia(rows + "fail call=nvmlDeviceGetNvLinkState device=0 status=15\n");
        CHECK(failure(machine).subject() == "nvmlDeviceGetNvLinkState");
    }
    SUBCASE("driver and library do not match") {
        machine.nvidia(rows + "fail call=nvmlInit_v2 status=18\n");
        CHECK(failure(machine).reason() == "failed with Driver/library version mismatch");
    }
    SUBCASE("the library lacks a function") {
        machine.nvidia(rows, "fake_nvml_without_uuid");
        CHECK(failure(machine).subject() == "nvmlDeviceGetUUID");
        CHECK(failure(machine).reason() == "is missing from the NVIDIA management library");
    }
    SUBCASE("the count is absurd") {
        machine.nvidia(rows + "count value=4000000000\n");
        CHECK(failure(machine).subject() == "nvmlDeviceGetCount_v2");
    }
    SUBCASE("the library is no library") {
        machine.options().nvml_library = machine.folder().write("broken.so", "not an object");
        CHECK(failure(machine).subject() == "dlopen");
    }
}

TEST_CASE("Where a call for more fails without a reason, the device is there, with a warning") {
    FakeMachine machine;
    machine.nvidia(
        std::string(machines::one_gpu) +
        "fail call=nvmlDeviceGetNvLinkState status=999\nfail call=nvmlDeviceGetMaxPcieLinkWidth status=999\n");
    auto const found = detect(machine);
    CHECK(available(found) == "cuda:0 cpu");
    REQUIRE(found.warnings.size() == 2);
    CHECK(found.warnings[0] ==
          "nvmlDeviceGetMaxPcieLinkWidth failed with Unknown Error on NVIDIA device 0: what it tells stays unknown");
}

TEST_CASE("A library without a driver is no device") {
    FakeMachine machine;
    machine.nvidia("fail call=nvmlInit_v2 status=9\n");
    CHECK(available(detect(machine)) == "cpu");
}

TEST_CASE("What a device does not support stays unknown") {
    FakeMachine machine;
    machine.nvidia(
        "gpu name=A uuid=GPU-0 memory=1000\nfail call=nvmlDeviceGetMemoryInfo status=3\n"
        "fail call=nvmlDeviceGetPciInfo_v3 status=3\n");
    auto const found = detect(machine);
    CHECK_MESSAGE(found.devices[0].device.memory == Bytes{65536 * 1024}, "it shares the host's memory");
    CHECK(found.devices[0].device.pci.empty());
}

TEST_CASE("A driver that hangs ends in an error that names the call, in time") {
    FakeMachine machine;
    machine.nvidia("gpu name=A uuid=GPU-0 memory=1000\nsleep call=nvmlDeviceGetName milliseconds=3000\n");
    machine.options().deadline = std::chrono::milliseconds(1000);
    auto const error = failure(machine);
    CHECK(error.subject() == "nvmlDeviceGetName");
    CHECK(error.reason() == "has not returned in 1 s");
}

TEST_CASE("A processor's link is the fastest PCIe of its GPUs") {
    FakeMachine machine;
    machine.nvidia("gpu name=A uuid=GPU-0 memory=1000 pcie_generation=5 pcie_width=16\n");
    CHECK(detect(machine).devices[1].device.link.bandwidth == 64e9);
}
