// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/writer.hpp>
#include <shardwise/monitor/host_sample.hpp>
#include <shardwise/monitor/monitor_summary.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A value, or null where it is unknown.
template <class T>
void write_member(JsonWriter& json, std::string_view name, std::optional<T> const& value) {
    json.key(name);
    value ? json.value(*value) : json.value(nullptr);
}
inline void write_member(JsonWriter& json, std::string_view name, std::string const& text) {
    json.key(name);
    text.empty() ? json.value(nullptr) : json.value(text);
}
inline void write_member(JsonWriter& json, std::string_view name, std::optional<SeriesSummary> const& series) {
    json.key(name);
    if (!series) return (void)json.value(nullptr);
    json.begin_object().member("count", series->count).member("min", series->min).member("mean", series->mean);
    json.member("max", series->max).member("p50", series->p50).member("p95", series->p95).end_object();
}

inline void write_names(JsonWriter& json, MonitoredDevice const& device) {
    json.member("id", device.id).member("name", device.name);
    write_member(json, "uuid", device.uuid);
    write_member(json, "pci", device.pci);
    write_member(json, "parent", device.parent);
}

}  // namespace detail

/// A look as one line of JSON, `shardwise.monitor/1`; what is unknown is null.
///
/// Units  bytes, seconds, percent, watts, joules, hertz, degrees Celsius
[[nodiscard]] inline std::string json_line(std::vector<MonitoredDevice> const& devices, MonitorSample const& sample) {
    JsonWriter json;
    auto const put = [&json](std::string_view name, auto const& value) { detail::write_member(json, name, value); };
    json.begin_object().member("schema", "shardwise.monitor/1").member("time", sample.time);
    json.member("elapsed", sample.elapsed).key("host").begin_object();
    put("cpu", sample.host.cpu);
    put("busiest_core", sample.host.busiest_core);
    json.key("cores").begin_array();
    for (auto const core : sample.cores) json.value(static_cast<double>(core));
    json.end_array();
    put("memory_used", sample.host.memory_used);
    put("memory_total", sample.host.memory_total);
    put("memory_percent", sample.host.memory_percent());
    json.key("pressure").begin_object();
    put("cpu", sample.host.cpu_pressure);
    put("memory", sample.host.memory_pressure);
    put("io", sample.host.io_pressure);
    json.end_object();
    put("energy", sample.host.energy);
    json.end_object().key("devices").begin_array();
    for (std::size_t i = 0; i < devices.size() && i < sample.devices.size(); ++i) {
        auto const& device = sample.devices[i];
        json.begin_object();
        detail::write_names(json, devices[i]);
        json.member("lost", device.is_lost);
        put("utilization", device.utilization);
        put("sm_activity", device.sm_activity);
        put("tensor_activity", device.tensor_activity);
        put("dram_activity", device.dram_activity);
        put("memory_used", device.memory_used);
        put("memory_total", device.memory_total);
        put("memory_percent", device.memory_percent());
        put("temperature", device.temperature);
        put("memory_temperature", device.memory_temperature);
        put("power", device.power);
        put("energy", device.energy);
        put("clock", device.clock);
        put("memory_clock", device.memory_clock);
        json.key("throttled_by");
        device.throttle_reasons ? json.value(throttle_text(*device.throttle_reasons)) : json.value(nullptr);
        put("pcie_sent", device.pcie_sent);
        put("pcie_received", device.pcie_received);
        put("nvlink_sent", device.nvlink_sent);
        put("nvlink_received", device.nvlink_received);
        put("processes", device.processes);
        json.end_object();
    }
    json.end_array().end_object();
    return std::move(json).text() + "\n";
}

/// A summary as one line of JSON, `shardwise.monitor_summary/1`. `exit_code` is that of a command that was watched.
[[nodiscard]] inline std::string json_line(std::vector<MonitoredDevice> const& devices, MonitorSummary const& summary,
                                           std::optional<int> exit_code = {}) {
    JsonWriter json;
    auto const put = [&json](std::string_view name, auto const& value) { detail::write_member(json, name, value); };
    json.begin_object().member("schema", "shardwise.monitor_summary/1").member("duration", summary.duration);
    json.member("samples", summary.samples).member("skipped", summary.skipped);
    put("exit_code", exit_code);
    json.key("host").begin_object();
    put("cpu", summary.host_cpu);
    put("memory_used", summary.host_memory_used);
    put("memory_percent", summary.host_memory_percent);
    put("memory_total", summary.host_memory_total);
    put("energy", summary.host_energy);
    json.end_object();
    put("total_avg_utilization", summary.total_avg_utilization);
    put("total_max_utilization", summary.total_max_utilization);
    put("total_avg_memory_mb", summary.total_avg_memory_mb);
    for (auto const* name : {"avg_utilization_per_gpu", "avg_memory_per_gpu_mb"}) {
        bool const is_memory = name[4] == 'm';
        json.key(name).begin_array();
        for (auto const& value : is_memory ? summary.avg_memory_per_gpu_mb : summary.avg_utilization_per_gpu)
            value ? json.value(*value) : json.value(nullptr);
        json.end_array();
    }
    put("any_gpu_active", summary.any_gpu_active);
    put("energy", summary.energy);
    json.key("devices").begin_array();
    for (std::size_t i = 0; i < devices.size() && i < summary.devices.size(); ++i) {
        auto const& device = summary.devices[i];
        json.begin_object();
        detail::write_names(json, devices[i]);
        json.member("lost", device.is_lost);
        put("utilization", device.utilization);
        put("memory_used", device.memory_used);
        put("memory_percent", device.memory_percent);
        put("memory_total", device.memory_total);
        put("temperature", device.temperature);
        put("power", device.power);
        put("energy", device.energy);
        json.member("energy_source", name_of(device.energy_source)).end_object();
    }
    json.end_array().end_object();
    return std::move(json).text() + "\n";
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
