// SPDX-License-Identifier: Apache-2.0
#include <shardwise/monitor/device_monitor.hpp>
#include <shardwise/monitor/multi_gpu_stats.hpp>
#include <shardwise/monitor/check_available.hpp>

#include <doctest/doctest.h>

#include "fake_machine.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise::testing::FakeMachine;
namespace machines = shardwise::testing::machines;

namespace {

DeviceMonitor watch(FakeMachine& machine, std::string const& devices = "") {
    auto monitor = DeviceMonitor::open({devices, machine.options()});
    REQUIRE_MESSAGE(monitor, (monitor ? "" : monitor.error().message()));
    return *std::move(monitor);
}

/// How many notes hold a text.
long notes_with(DeviceMonitor const& monitor, std::string const& text) {
    return std::count_if(monitor.notes().begin(), monitor.notes().end(),
                         [&](std::string const& note) { return note.find(text) != std::string::npos; });
}

/// A Hopper with everything that NVML tells.
std::string hopper() {
    return "gpu name=\"NVIDIA H100\" uuid=GPU-h pci=00000000:01:00.0 memory=85899345920 free=64424509440 capability=9.0 gpm=1 "
           "narrow=1\n"
           "series device=0 key=utilization values=0,50,100\n"
           "series device=0 key=gpm_sm values=40,60\nseries device=0 key=gpm_tensor values=30\nseries device=0 key=gpm_dram values=20.5\n"
           "series device=0 key=temperature values=55\nseries device=0 key=memory_temperature values=61\n"
           "series device=0 key=field_power values=350500\nseries device=0 key=field_energy values=1000000,1350000,1700000\n"
           "series device=0 key=sm_clock values=1980\nseries device=0 key=memory_clock values=2619\n"
           "series device=0 key=throttle values=0,4,36\nseries device=0 key=processes values=0,3\n"
           "series device=0 key=pcie_sent values=4294967000,704\nseries device=0 key=pcie_received values=100,100\n"
           "series device=0 key=nvlink_sent values=10,30\nseries device=0 key=nvlink_received values=0,1\n";
}

}  // namespace

TEST_CASE("DeviceMonitor: a machine without a driver has its host") {
    FakeMachine machine;
    auto monitor = watch(machine);
    CHECK(monitor.devices().empty());
    MonitorSample sample;
    monitor.read(sample);
    CHECK(sample.devices.empty());
    CHECK(*sample.host.memory_total == Bytes{65536 * 1024});
    CHECK(sample.time > 1.6e9);
}

TEST_CASE("DeviceMonitor: all that NVML tells of a Hopper, counters from the first look on") {
    FakeMachine machine;
    machine.nvidia(hopper());
    auto monitor = watch(machine);
    REQUIRE(monitor.devices().size() == 1);
    CHECK(monitor.devices()[0].id == "cuda:0");
    CHECK(monitor.devices()[0].uuid == "GPU-h");
    MonitorSample sample;
    monitor.read(sample);
    auto const first = sample.devices.at(0);
    CHECK(*first.utilization == 0.0);
    CHECK_FALSE(first.sm_activity);
    CHECK(*first.energy == 0.0);
    CHECK(*first.throttle_reasons == 0);
    CHECK(*first.processes == 0);
    monitor.read(sample);
    auto const second = sample.devices.at(0);
    CHECK(*second.utilization == 50.0);
    CHECK(*second.sm_activity == 40.0);
    CHECK(*second.tensor_activity == 30.0);
    CHECK(*second.dram_activity == 20.5);
    CHECK(*second.memory_used == Bytes{21474836480});
    CHECK(*second.memory_percent() == doctest::Approx(25.0));
    CHECK(*second.temperature == 55.0);
    CHECK(*second.memory_temperature == 61.0);
    CHECK(*second.power == doctest::Approx(350.5));
    CHECK(*second.energy == doctest::Approx(350.0));
    CHECK(*second.clock == 1980e6);
    CHECK(*second.memory_clock == 2619e6);
    CHECK(throttle_text(*second.throttle_reasons) == "power cap");
    CHECK(*second.processes == 3);
    // 32 bits: 296 to the wrap and 704 after it.
    CHECK(*second.pcie_sent == 1000.0);
    CHECK(*second.pcie_received == 0.0);
    CHECK(*second.nvlink_sent == 20 * 1024.0);
    CHECK(*second.nvlink_received == 1024.0);
    monitor.read(sample);
    CHECK(throttle_text(*sample.devices[0].throttle_reasons) == "power cap, thermal");
    CHECK(*sample.devices[0].energy == doctest::Approx(700.0));
    CHECK(notes_with(monitor, "cuda:0") == 0);
}

TEST_CASE("DeviceMonitor: what a device does not tell is empty and said once") {
    FakeMachine machine;
    machine.nvidia(machines::one_gpu);
    auto monitor = watch(machine);
    MonitorSample sample;
    for (int i = 0; i < 3; ++i) monitor.read(sample);
    auto const device = sample.devices.at(0);
    CHECK_FALSE(device.utilization);
    CHECK_FALSE(device.power);
    CHECK_FALSE(device.energy);
    CHECK_FALSE(device.processes);
    CHECK_FALSE(device.throttle_reasons);
    CHECK_FALSE(device.pcie_sent);
    CHECK(device.memory_total);
    CHECK(notes_with(monitor, "nvmlDeviceGetUtilizationRates failed with Not Supported (3)") == 1);
    CHECK(notes_with(monitor, "Hopper") == 1);
}

TEST_CASE("DeviceMonitor: a missing permission is empty and says what mends it; other values go on") {
    FakeMachine machine;
    machine.nvidia(hopper() + "fail call=nvmlGpmSampleGet status=4\nfail call=nvmlDeviceGetUtilizationRates status=4\n");
    auto monitor = watch(machine);
    MonitorSample sample;
    for (int i = 0; i < 3; ++i) monitor.read(sample);
    CHECK_FALSE(sample.devices[0].utilization);
    CHECK_FALSE(sample.devices[0].sm_activity);
    CHECK(*sample.devices[0].temperature == 55.0);
    CHECK(notes_with(monitor, "nvmlGpmSampleGet failed with Insufficient Permissions (4)") == 1);
    CHECK(notes_with(monitor, "NVreg_RestrictProfilingToAdminUsers=0") == 2);
}

TEST_CASE("DeviceMonitor: a device that is lost in mid-run ends its row, says so once, and the others go on") {
    FakeMachine machine;
    machine.nvidia(machines::dgx() +
                   "series device=1 key=utilization values=5,6,7\nseries device=0 key=utilization values=1,2,3\n"
                   "fail call=nvmlDeviceGetUtilizationRates device=1 status=15 after=1\n");
    auto monitor = watch(machine, "1,0");
    MonitorSample sample;
    monitor.read(sample);
    CHECK(*sample.devices.at(0).utilization == 5.0);
    CHECK_FALSE(sample.devices[0].is_lost);
    monitor.read(sample);
    monitor.read(sample);
    CHECK(sample.devices[0].is_lost);
    CHECK_FALSE(sample.devices[0].utilization);
    CHECK_FALSE(sample.devices[0].memory_used);
    CHECK_FALSE(sample.devices[1].is_lost);
    CHECK(*sample.devices[1].utilization == 3.0);
    CHECK(notes_with(monitor, "is lost") == 1);
    CHECK(notes_with(monitor, "cuda:1 is lost (nvmlDeviceGetUtilizationRates: status 15)") == 1);
}

TEST_CASE("DeviceMonitor: used memory is nvidia-smi's, without what the driver reserves, where the driver tells that apart") {
    FakeMachine machine;
    machine.nvidia("gpu name=A uuid=GPU-a pci=00000000:01:00.0 memory=1000000 free=600000 reserved=100000\n"
                   "gpu name=A uuid=GPU-b pci=00000000:02:00.0 memory=1000000 free=600000\n");
    auto monitor = watch(machine);
    MonitorSample sample;
    monitor.read(sample);
    CHECK(*sample.devices.at(0).memory_used == Bytes{300000});
    CHECK(*sample.devices.at(1).memory_used == Bytes{400000});
    CHECK(notes_with(monitor, "MemoryInfo") == 0);
}

TEST_CASE("DeviceMonitor: MIG instances have memory and no utilisation, and say why") {
    FakeMachine machine;
    machine.nvidia(machines::mig);
    auto monitor = watch(machine, "MIG-11");
    REQUIRE(monitor.devices().size() == 1);
    CHECK(monitor.devices()[0].parent == "GPU-a0");
    MonitorSample sample;
    monitor.read(sample);
    CHECK(*sample.devices[0].memory_total == Bytes{20937965568});
    CHECK_FALSE(sample.devices[0].utilization);
    CHECK(notes_with(monitor, "MIG instances do not tell it") >= 1);
}

TEST_CASE("DeviceMonitor: eight devices, in order") {
    FakeMachine machine;
    std::string series;
    for (int i = 0; i < 8; ++i)
        series += "series device=" + std::to_string(i) + " key=utilization values=" + std::to_string(10 * i) + "\n";
    machine.nvidia(machines::dgx() + series);
    auto monitor = watch(machine);
    REQUIRE(monitor.devices().size() == 8);
    MonitorSample sample;
    monitor.read(sample);
    for (std::size_t i = 0; i < 8; ++i) CHECK(*sample.devices[i].utilization == 10.0 * static_cast<double>(i));
}

TEST_CASE("DeviceMonitor: AMD's GPUs by the kernel's files alone; one that is gone has no values") {
    FakeMachine machine;
    machine.put("/sys/class/kfd/kfd/topology/nodes/1/properties",
                "simd_count 304\ndomain 0\nlocation_id 768\nvendor_id 4098\ndrm_render_minor 128\ngfx_target_version 90402\n");
    machine.put("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "1234\n");
    std::string const device = "/sys/bus/pci/devices/0000:03:00.0/";
    machine.put(device + "mem_info_vram_total", "206141652992\n");
    machine.put(device + "mem_info_vram_used", "1073741824\n");
    machine.put(device + "gpu_busy_percent", "87\n");
    machine.put(device + "hwmon/hwmon4/temp2_input", "51000\n");
    machine.put(device + "hwmon/hwmon4/power1_input", "640000000\n");
    machine.put(device + "hwmon/hwmon4/energy1_input", "1000000\n");
    machine.put(device + "hwmon/hwmon4/freq1_input", "2100000000\n");
    auto monitor = watch(machine);
    REQUIRE(monitor.devices().size() == 1);
    CHECK(monitor.devices()[0].id == "hip:0");
    MonitorSample sample;
    monitor.read(sample);
    machine.put(device + "hwmon/hwmon4/energy1_input", "641000000\n");
    monitor.read(sample);
    auto const& seen = sample.devices[0];
    CHECK(*seen.utilization == 87.0);
    CHECK(*seen.memory_used == Bytes{1073741824});
    CHECK(*seen.temperature == 51.0);
    CHECK(*seen.power == 640.0);
    CHECK(*seen.energy == doctest::Approx(640.0));
    CHECK(*seen.clock == 2100e6);
    CHECK_FALSE(seen.memory_temperature);
    CHECK_FALSE(seen.pcie_sent);
}

TEST_CASE("DeviceMonitor: a broken driver leaves the host, and is an error where its devices are named") {
    FakeMachine machine;
    machine.nvidia(std::string(machines::one_gpu) + "fail call=nvmlInit_v2 status=18\n");
    auto monitor = watch(machine);
    CHECK(monitor.devices().empty());
    CHECK(notes_with(monitor, "nvmlInit_v2") == 1);
    auto const named = DeviceMonitor::open({"cuda:0", machine.options()});
    REQUIRE_FALSE(named);
    CHECK(named.error().code() == ErrorCode::backend_failure);
}

TEST_CASE("check_available: for each device whether it may be used, or why not") {
    FakeMachine machine;
    machine.nvidia(machines::mixed);
    auto const good = check_available("cuda:0,2", machine.options());
    REQUIRE(good);
    CHECK(good->all_available);
    auto const bad = check_available("cuda:0,cuda:7", machine.options());
    REQUIRE(bad);
    CHECK_FALSE(bad->all_available);
    REQUIRE(bad->devices.size() == 2);
    CHECK(bad->devices[0].is_available);
    CHECK(bad->devices[1].reason.find("there are 3") != std::string::npos);
}

TEST_CASE("multi_gpu_stats: this moment of some devices, and their totals") {
    FakeMachine machine;
    machine.nvidia(std::string(machines::dgx()) + "series device=2 key=utilization values=20\nseries device=5 key=utilization values=70\n");
    auto const stats = multi_gpu_stats("cuda:2,cuda:5", machine.options());
    REQUIRE(stats);
    CHECK(stats->devices.size() == 2);
    CHECK(*stats->total_avg_utilization == 90.0);
    CHECK(*stats->total_max_utilization == 70.0);
    CHECK(*stats->any_gpu_active);
    auto const partial = multi_gpu_stats("cuda:2,cuda:6", machine.options());
    REQUIRE(partial);
    // A total without one of its devices would be wrong.
    CHECK_FALSE(partial->total_avg_utilization);
    CHECK(*partial->any_gpu_active);
    CHECK(multi_gpu_stats("cuda:9", machine.options()).error().code() == ErrorCode::no_such_device);
}
