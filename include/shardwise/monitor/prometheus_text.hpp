// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/monitor/host_sample.hpp>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Writes Prometheus' text format: each metric's help and type, then its values.
class PrometheusWriter {
public:
    void begin(std::string_view name, std::string_view type, std::string_view help) {
        name_ = name;
        head_ = "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " + std::string(name) + " " +
                std::string(type) + "\n";
    }
    /// One value; what is unknown has no line, and a metric without values is not there.
    void value(std::string_view labels, std::optional<double> number) {
        if (!number || !std::isfinite(*number)) return;
        char digits[40];
        auto const end = std::to_chars(digits, digits + sizeof digits, *number).ptr;
        text_ += head_;
        head_.clear();
        text_ += name_;
        if (!labels.empty()) text_ += "{" + std::string(labels) + "}";
        text_ += ' ';
        text_.append(digits, end);
        text_ += '\n';
    }
    [[nodiscard]] static std::string label(std::string_view name, std::string_view text) {
        std::string out(name);
        out += "=\"";
        for (char const letter : text) {
            if (letter == '\n') {
                out += "\\n";
                continue;
            }
            if (letter == '"' || letter == '\\') out += '\\';
            out += letter;
        }
        return out + '"';
    }
    [[nodiscard]] std::string const& text() const { return text_; }

private:
    std::string name_, head_, text_;
};

}  // namespace detail

/// A look in Prometheus' text format: base units (bytes, seconds, joules, ratios), counters end with `_total`, devices are
/// told apart by the label `uuid`. What is unknown has no line.
[[nodiscard]] inline std::string prometheus_text(std::vector<MonitoredDevice> const& devices, MonitorSample const& sample) {
    detail::PrometheusWriter out;
    std::vector<std::string> labels;
    for (auto const& device : devices) {
        labels.push_back(out.label("device", device.id) + "," + out.label("uuid", device.uuid) + "," +
                         out.label("name", device.name));
    }
    auto const bytes = [](std::optional<Bytes> size) -> std::optional<double> {
        if (!size) return std::nullopt;
        return static_cast<double>(size->count());
    };
    auto const ratio = [](std::optional<double> percent) -> std::optional<double> {
        if (!percent) return std::nullopt;
        return *percent / 100.0;
    };
    auto const each = [&](std::string_view name, std::string_view type, std::string_view help, auto const& value) {
        out.begin(name, type, help);
        for (std::size_t i = 0; i < devices.size() && i < sample.devices.size(); ++i)
            out.value(labels[i], value(sample.devices[i]));
    };
    using Seen = DeviceSample const&;
    auto const& host = sample.host;
    out.begin("shardwise_host_cpu_ratio", "gauge", "Share of all processors' time that was used since the look before.");
    out.value("", ratio(host.cpu));
    out.begin("shardwise_host_memory_used_bytes", "gauge", "Memory in use within the control groups of the monitor.");
    out.value("", bytes(host.memory_used));
    out.begin("shardwise_host_memory_size_bytes", "gauge", "Memory that may be used within these control groups.");
    out.value("", bytes(host.memory_total));
    out.begin("shardwise_host_pressure_ratio", "gauge", "Share of the last 10 s in which some task waited for the resource.");
    out.value(out.label("resource", "cpu"), ratio(host.cpu_pressure));
    out.value(out.label("resource", "memory"), ratio(host.memory_pressure));
    out.value(out.label("resource", "io"), ratio(host.io_pressure));
    out.begin("shardwise_host_energy_joules_total", "counter", "Energy of the processor packages since the monitor began.");
    out.value("", host.energy);

    each("shardwise_device_up", "gauge", "0 where the device is lost.",
         [](Seen d) { return std::optional(d.is_lost ? 0.0 : 1.0); });
    each("shardwise_device_utilization_ratio", "gauge", "Share of time in which any kernel ran.",
         [&](Seen d) { return ratio(d.utilization); });
    each("shardwise_device_sm_activity_ratio", "gauge", "Share of time and of processors that had work.",
         [&](Seen d) { return ratio(d.sm_activity); });
    each("shardwise_device_tensor_activity_ratio", "gauge", "Share of time in which tensor cores worked.",
         [&](Seen d) { return ratio(d.tensor_activity); });
    each("shardwise_device_dram_activity_ratio", "gauge", "Share of time in which memory was moved.",
         [&](Seen d) { return ratio(d.dram_activity); });
    each("shardwise_device_memory_used_bytes", "gauge", "Memory in use.", [&](Seen d) { return bytes(d.memory_used); });
    each("shardwise_device_memory_size_bytes", "gauge", "Memory of the device.", [&](Seen d) { return bytes(d.memory_total); });
    each("shardwise_device_temperature_celsius", "gauge", "Temperature of the chip.", [](Seen d) { return d.temperature; });
    each("shardwise_device_power_watts", "gauge", "Power drawn now.", [](Seen d) { return d.power; });
    each("shardwise_device_energy_joules_total", "counter", "Energy since the monitor began, by the device's counter.",
         [](Seen d) { return d.energy; });
    each("shardwise_device_clock_hertz", "gauge", "Clock of the processors.", [](Seen d) { return d.clock; });
    each("shardwise_device_memory_clock_hertz", "gauge", "Clock of the memory.", [](Seen d) { return d.memory_clock; });
    each("shardwise_device_pcie_sent_bytes_total", "counter", "Bytes sent over PCI Express since the monitor began.",
         [](Seen d) { return d.pcie_sent; });
    each("shardwise_device_pcie_received_bytes_total", "counter", "Bytes received over PCI Express since the monitor began.",
         [](Seen d) { return d.pcie_received; });
    each("shardwise_device_nvlink_sent_bytes_total", "counter", "Bytes sent over all NVLinks since the monitor began.",
         [](Seen d) { return d.nvlink_sent; });
    each("shardwise_device_nvlink_received_bytes_total", "counter", "Bytes received over all NVLinks since the monitor began.",
         [](Seen d) { return d.nvlink_received; });
    each("shardwise_device_processes", "gauge", "Processes that compute on the device.",
         [](Seen d) { return d.processes ? std::optional(static_cast<double>(*d.processes)) : std::nullopt; });
    return out.text();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
