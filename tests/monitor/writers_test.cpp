// SPDX-License-Identifier: Apache-2.0
#include <shardwise/monitor/csv_rows.hpp>
#include <shardwise/monitor/json_lines.hpp>
#include <shardwise/monitor/prometheus_text.hpp>

#include <shardwise/json/value.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "skip.hpp"
#include "temporary_folder.hpp"

using namespace shardwise;

namespace {

std::vector<MonitoredDevice> two_devices() {
    return {{"cuda:0", "A \"quoted\" name", "GPU-1", "0000:01:00.0", ""}, {"cuda:1", "B", "GPU-2", "", ""}};
}
MonitorSample two_looks() {
    MonitorSample sample;
    sample.time = 1795512679.125;
    sample.elapsed = 1.5;
    sample.host.cpu = 12.5;
    sample.host.memory_used = Bytes{1048576};
    sample.host.memory_total = Bytes{4194304};
    DeviceSample full;
    full.utilization = 50.0;
    full.memory_used = Bytes{1572864};
    full.memory_total = Bytes{2097152};
    full.temperature = 40.0;
    full.power = 99.5;
    full.energy = 12.25;
    full.pcie_sent = 1e12;
    sample.devices = {full, DeviceSample{}};
    return sample;
}

}  // namespace

TEST_CASE("CsvRows: the columns of the interface; unknown fields are empty, lists are quoted") {
    CsvRows const rows(two_devices());
    CHECK(rows.header() ==
          "timestamp,duration_s,host_cpu_percent,host_memory_used_mb,host_memory_total_mb,host_memory_percent,"
          "gpu_stats_gpu_0_utilization_percent,gpu_stats_gpu_0_memory_used_mb,gpu_stats_gpu_0_memory_total_mb,"
          "gpu_stats_gpu_0_memory_percent,gpu_stats_gpu_0_temperature_c,gpu_stats_gpu_0_power_draw_w,"
          "gpu_stats_gpu_1_utilization_percent,gpu_stats_gpu_1_memory_used_mb,gpu_stats_gpu_1_memory_total_mb,"
          "gpu_stats_gpu_1_memory_percent,gpu_stats_gpu_1_temperature_c,gpu_stats_gpu_1_power_draw_w,config_device_ids\r\n");
    CHECK(rows.row(two_looks()) ==
          "2026-11-24T09:31:19.125Z,1.500,12.500,1.000,4.000,25.000,50.000,1.500,2.000,75.000,40.000,99.500,,,,,,,"
          "\"cuda:0,cuda:1\"\r\n");
}

TEST_CASE("CsvRows: a command's row has its exit code and the means") {
    CsvRows const rows({two_devices()[0]}, true);
    CHECK(rows.header().find("host_memory_percent,exit_code,gpu_stats_gpu_0_") != std::string::npos);
    SummaryBuilder builder(1);
    auto sample = two_looks();
    sample.devices.pop_back();
    builder.add(sample);
    sample.devices[0].utilization = 100.0;
    sample.elapsed = 3.5;
    builder.add(sample);
    CHECK(rows.row(builder.summary(), 0.0, 3) ==
          "1970-01-01T00:00:00.000Z,2.000,12.500,1.000,4.000,25.000,3,75.000,1.500,2.000,75.000,40.000,99.500,cuda:0\r\n");
}

TEST_CASE("json_line: one line, null for what is unknown") {
    auto const line = json_line(two_devices(), two_looks());
    CHECK(line.find('\n') == line.size() - 1);
    auto const document = parse_json(line);
    REQUIRE(document);
    auto const root = document->root();
    CHECK(*root.find("schema")->string() == "shardwise.monitor/1");
    auto const devices = *root.find("devices");
    REQUIRE(devices.size() == 2);
    std::size_t nulls = 0;
    for (auto const device : devices) {
        bool const is_first = *device.find("id")->string() == "cuda:0";
        if (is_first) CHECK(*device.find("utilization")->real() == 50.0);
        if (is_first) CHECK(*device.find("memory_used")->integer() == 1572864);
        if (is_first) CHECK(*device.find("name")->string() == "A \"quoted\" name");
        if (is_first) continue;
        for (auto const* key : {"utilization", "memory_used", "power", "energy", "throttled_by", "processes", "pcie_sent"}) {
            REQUIRE(device.find(key));
            nulls += device.find(key)->is_null() ? 1U : 0U;
        }
    }
    CHECK(nulls == 7);
}

TEST_CASE("prometheus_text: base units, labels that are escaped, no line for what is unknown") {
    auto const text = prometheus_text(two_devices(), two_looks());
    CHECK(text.find("shardwise_host_cpu_ratio 0.125\n") != std::string::npos);
    CHECK(text.find("# TYPE shardwise_device_energy_joules_total counter\n"
                    "shardwise_device_energy_joules_total{device=\"cuda:0\",uuid=\"GPU-1\",name=\"A \\\"quoted\\\" name\"} 12.25\n") !=
          std::string::npos);
    CHECK(text.find("shardwise_device_utilization_ratio{device=\"cuda:0\",uuid=\"GPU-1\",name=\"A \\\"quoted\\\" name\"} 0.5\n") !=
          std::string::npos);
    CHECK(text.find("shardwise_device_utilization_ratio{device=\"cuda:1\"") == std::string::npos);
    CHECK(text.find("shardwise_device_up{device=\"cuda:1\"") != std::string::npos);
    CHECK(text.find("sm_activity") == std::string::npos);
}

TEST_CASE("prometheus_text: promtool finds nothing to say") {
    if (std::system("command -v promtool > /dev/null 2>&1") != 0) {
        testing::note_absent_tool("promtool");
        return;
    }
    testing::TemporaryFolder const folder;
    auto sample = two_looks();
    auto& device = sample.devices[0];
    device.sm_activity = device.tensor_activity = device.dram_activity = 1.0;
    device.clock = device.memory_clock = 1e9;
    device.pcie_received = device.nvlink_sent = device.nvlink_received = 5.0;
    device.processes = 2;
    sample.host.energy = sample.host.cpu_pressure = sample.host.io_pressure = sample.host.memory_pressure = 0.5;
    auto const file = folder.write("metrics", prometheus_text(two_devices(), sample));
    CHECK(std::system(("promtool check metrics < " + file).c_str()) == 0);
}
