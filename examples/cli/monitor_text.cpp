// SPDX-License-Identifier: Apache-2.0
#include "monitor_text.hpp"

#include <shardwise/core/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>

namespace shardwise::cli {

namespace {

using Row = std::vector<std::string>;

/// Columns two blanks apart; the first is for words, the others for numbers.
[[nodiscard]] std::string table_text(std::vector<Row> const& rows, Style const& style, int width) {
    std::vector<std::size_t> widths;
    for (auto const& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    for (auto const& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            std::string const gap(widths[i] - row[i].size(), ' ');
            line += (i > 0 ? "  " : "") + (i == 0 ? row[i] + gap : gap + row[i]);
        }
        line.resize(std::min(line.size(), static_cast<std::size_t>(std::max(width, 1))));
        while (!line.empty() && line.back() == ' ') line.pop_back();
        out += (&row == rows.data() ? style.bold(line) : line) + "\n";
    }
    return out;
}

[[nodiscard]] std::string size_text(std::optional<Bytes> bytes) {
    return bytes ? to_text(*bytes) : "-";
}

[[nodiscard]] std::string of_text(std::optional<Bytes> used, std::optional<Bytes> total) {
    return size_text(used) + " of " + size_text(total);
}

[[nodiscard]] std::string bytes_text(double bytes) {
    return to_text(Bytes{static_cast<std::int64_t>(std::llround(bytes))});
}

[[nodiscard]] std::string series_text(std::optional<SeriesSummary> const& series, std::string_view unit) {
    if (!series) return "-";
    return "mean " + number_text(series->mean, unit) + ", p95 " + number_text(series->p95, unit) + ", max " +
           number_text(series->max, unit);
}

[[nodiscard]] std::string memory_text(std::optional<SeriesSummary> const& series, std::optional<Bytes> total) {
    if (!series) return "-";
    return "mean " + bytes_text(series->mean) + ", max " + bytes_text(series->max) + " of " + size_text(total);
}

}  // namespace

std::string number_text(std::optional<double> number, std::string_view unit, int digits) {
    if (!number || !std::isfinite(*number)) return "-";
    std::array<char, 400> text{};
    (void)std::snprintf(text.data(), text.size(), "%.*f", digits, *number);
    return text.data() + (unit.empty() ? "" : " " + std::string(unit));
}

std::string percent_text(std::optional<double> percent) {
    return number_text(percent, "%");
}

std::string monitor_text(std::vector<MonitoredDevice> const& devices, MonitorSample const& sample, Style const& style) {
    auto const& host = sample.host;
    std::vector<Row> rows{{"", "cpu", "busiest core", "memory", "cpu wait", "memory wait", "io wait", "energy"}};
    rows.push_back({"host", percent_text(host.cpu), percent_text(host.busiest_core), of_text(host.memory_used, host.memory_total),
                    percent_text(host.cpu_pressure), percent_text(host.memory_pressure), percent_text(host.io_pressure),
                    number_text(host.energy, "J")});
    auto out = table_text(rows, style, style.width);
    if (devices.empty()) return out;
    rows = {{"device", "busy", "SM", "tensor", "DRAM", "memory", "", "temp", "power", "clock", "processes"}};
    for (std::size_t i = 0; i < devices.size() && i < sample.devices.size(); ++i) {
        auto const& device = sample.devices[i];
        auto const name = escaped(devices[i].id + " " + devices[i].name);
        if (device.is_lost) {
            rows.push_back({name, "lost"});
            continue;
        }
        std::optional<double> gigahertz;
        if (device.clock) gigahertz = *device.clock * 1e-9;
        rows.push_back({name, percent_text(device.utilization), percent_text(device.sm_activity),
                        percent_text(device.tensor_activity), percent_text(device.dram_activity),
                        of_text(device.memory_used, device.memory_total), percent_text(device.memory_percent()),
                        number_text(device.temperature, "C"), number_text(device.power, "W"),
                        number_text(gigahertz, "GHz", 2),
                        device.processes ? std::to_string(*device.processes) : std::string("-")});
    }
    return out + "\n" + table_text(rows, style, style.width);
}

std::string summary_text(std::vector<MonitoredDevice> const& devices, MonitorSummary const& summary) {
    std::string out = "  " + number_text(summary.duration, "s", 1) + " watched, " + std::to_string(summary.samples) + " looks";
    if (summary.skipped > 0) out += ", " + std::to_string(summary.skipped) + " left out";
    out += "\n  host: cpu " + series_text(summary.host_cpu, "%") + "; memory " +
           memory_text(summary.host_memory_used, summary.host_memory_total) + "; energy " +
           number_text(summary.host_energy, "J", 1) + "\n";
    for (std::size_t i = 0; i < devices.size() && i < summary.devices.size(); ++i) {
        auto const& device = summary.devices[i];
        out += "  " + escaped(devices[i].id + " " + devices[i].name) + (device.is_lost ? " (lost on the way)" : "") +
               ": busy " + series_text(device.utilization, "%") + "; memory " +
               memory_text(device.memory_used, device.memory_total) + "; power " + series_text(device.power, "W") +
               "; energy " + number_text(device.energy, "J", 1);
        if (device.energy_source == EnergySource::counter) out += " (its counter)";
        if (device.energy_source == EnergySource::power) out += " (from its power)";
        out += "\n";
    }
    if (devices.size() > 1 && summary.energy) out += "  all devices: energy " + number_text(summary.energy, "J", 1) + "\n";
    return out;
}

}  // namespace shardwise::cli
