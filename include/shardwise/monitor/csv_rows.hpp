// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/monitor/monitor_summary.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Seconds since 1970 as ISO 8601 in UTC: "2026-11-24T09:30:00.125Z".
[[nodiscard]] inline std::string utc_text(double seconds) {
    auto const whole = static_cast<std::time_t>(std::floor(seconds));
    auto const thousandths = static_cast<int>((seconds - std::floor(seconds)) * 1e3);
    std::tm parts{};
    if (::gmtime_r(&whole, &parts) == nullptr) return {};
    std::array<char, 96> text{};
    (void)std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                        parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, thousandths);
    return text.data();
}

/// A field of RFC 4180: in quotes where it holds a comma, a quote or a line end.
[[nodiscard]] inline std::string csv_field(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string out = "\"";
    for (char const letter : text) {
        if (letter == '"') out += '"';
        out += letter;
    }
    return out + '"';
}

}  // namespace detail

/// Rows of values that are flat, for tables: the host, then each device. What is unknown is an empty field.
///
/// Units  percent, MiB (`_mb`, as nvidia-smi's), degrees Celsius, watts, seconds
/// Source  RFC 4180: lines end with CR LF
class CsvRows {
public:
    /// `has_exit_code`: rows are the means of a command's run, and say how it ended.
    explicit CsvRows(std::vector<MonitoredDevice> const& devices, bool has_exit_code = false)
        : count_(devices.size()), has_exit_code_(has_exit_code) {
        for (auto const& device : devices) ids_ += (ids_.empty() ? "" : ",") + device.id;
    }

    [[nodiscard]] std::string header() const {
        std::string out =
            "timestamp,duration_s,host_cpu_percent,host_memory_used_mb,host_memory_total_mb,host_memory_percent";
        if (has_exit_code_) out += ",exit_code";
        for (std::size_t i = 0; i < count_; ++i) {
            for (auto const* name : {"utilization_percent", "memory_used_mb", "memory_total_mb", "memory_percent",
                                     "temperature_c", "power_draw_w"}) {
                out += ",gpu_stats_gpu_" + std::to_string(i) + "_" + name;
            }
        }
        return out + ",config_device_ids\r\n";
    }

    /// A row of one look.
    [[nodiscard]] std::string row(MonitorSample const& sample) const {
        std::string out = detail::utc_text(sample.time);
        add(out, sample.elapsed);
        add(out, sample.host.cpu);
        add(out, mebibytes(sample.host.memory_used));
        add(out, mebibytes(sample.host.memory_total));
        add(out, sample.host.memory_percent());
        if (has_exit_code_) out += ',';
        DeviceSample const absent{};
        for (std::size_t i = 0; i < count_; ++i) {
            auto const& device = i < sample.devices.size() ? sample.devices[i] : absent;
            add(out, device.utilization);
            add(out, mebibytes(device.memory_used));
            add(out, mebibytes(device.memory_total));
            add(out, device.memory_percent());
            add(out, device.temperature);
            add(out, device.power);
        }
        return out + "," + detail::csv_field(ids_) + "\r\n";
    }

    /// A row of the means of a run that ended at `time` with this code.
    [[nodiscard]] std::string row(MonitorSummary const& summary, double time, int exit_code) const {
        std::string out = detail::utc_text(time);
        add(out, summary.duration);
        add(out, mean(summary.host_cpu));
        add(out, mean(summary.host_memory_used, 1.0 / mebibyte));
        add(out, mebibytes(summary.host_memory_total));
        add(out, mean(summary.host_memory_percent));
        if (has_exit_code_) out += "," + std::to_string(exit_code);
        DeviceSummary const absent{};
        for (std::size_t i = 0; i < count_; ++i) {
            auto const& device = i < summary.devices.size() ? summary.devices[i] : absent;
            add(out, mean(device.utilization));
            add(out, mean(device.memory_used, 1.0 / mebibyte));
            add(out, mebibytes(device.memory_total));
            add(out, mean(device.memory_percent));
            add(out, mean(device.temperature));
            add(out, mean(device.power));
        }
        return out + "," + detail::csv_field(ids_) + "\r\n";
    }

private:
    static constexpr double mebibyte = 1048576.0;

    static std::optional<double> mebibytes(std::optional<Bytes> bytes) {
        if (!bytes) return std::nullopt;
        return static_cast<double>(bytes->count()) / mebibyte;
    }
    static std::optional<double> mean(std::optional<SeriesSummary> const& series, double unit = 1.0) {
        if (!series) return std::nullopt;
        return series->mean * unit;
    }
    /// Three digits after the point.
    static void add(std::string& out, std::optional<double> value) {
        out += ',';
        if (!value || !std::isfinite(*value)) return;
        std::array<char, 400> digits{};
        auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), *value, std::chars_format::fixed, 3).ptr;
        out.append(digits.data(), end);
    }

    std::size_t count_;
    bool has_exit_code_;
    std::string ids_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
