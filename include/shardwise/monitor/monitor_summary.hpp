// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/monitor/host_sample.hpp>
#include <shardwise/monitor/series_summary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where a number of joules comes from.
enum class EnergySource : std::uint8_t {
    unknown,
    counter,  // the device's own counter
    power,    // trapezoids over the power that was seen
};

[[nodiscard]] constexpr std::string_view name_of(EnergySource source) {
    switch (source) {
        case EnergySource::unknown: return "unknown";
        case EnergySource::counter: return "counter";
        case EnergySource::power: return "power";
    }
    return "unknown";
}

/// What a device did while it was watched; what it never told is empty.
struct DeviceSummary {
    /// Units  percent
    std::optional<SeriesSummary> utilization{};
    /// Units  bytes
    std::optional<SeriesSummary> memory_used{};
    /// Units  percent
    std::optional<SeriesSummary> memory_percent{};
    /// Units  degrees Celsius
    std::optional<SeriesSummary> temperature{};
    /// Units  watts
    std::optional<SeriesSummary> power{};
    std::optional<Bytes> memory_total{};
    /// Units  joules
    std::optional<double> energy{};
    EnergySource energy_source = EnergySource::unknown;
    /// It was lost on the way: the rest is what was seen before.
    bool is_lost = false;
};

/// What host and devices did while they were watched.
struct MonitorSummary {
    /// From the first look to the last.
    ///
    /// Units  seconds
    double duration = 0.0;
    std::uint64_t samples = 0;
    /// Looks that were left out because the one before took too long.
    std::uint64_t skipped = 0;
    std::optional<SeriesSummary> host_cpu{};
    std::optional<SeriesSummary> host_memory_used{};
    std::optional<SeriesSummary> host_memory_percent{};
    std::optional<Bytes> host_memory_total{};
    /// Units  joules
    std::optional<double> host_energy{};
    std::vector<DeviceSummary> devices{};
    /// The sum of the devices' means; this and the other totals are empty where a device did not tell its part.
    ///
    /// Units  percent
    std::optional<double> total_avg_utilization{};
    /// The largest that any device had.
    std::optional<double> total_max_utilization{};
    /// Units  MiB
    std::optional<double> total_avg_memory_mb{};
    std::vector<std::optional<double>> avg_utilization_per_gpu{};
    std::vector<std::optional<double>> avg_memory_per_gpu_mb{};
    /// Some look saw a utilisation above 0.
    std::optional<bool> any_gpu_active{};
    /// Of all devices.
    ///
    /// Units  joules
    std::optional<double> energy{};
};

/// Sums looks up as they come, in fixed memory.
class SummaryBuilder {
public:
    explicit SummaryBuilder(std::size_t devices) : devices_(devices) {}

    /// Takes one look; `sample` has as many devices as were announced.
    void add(MonitorSample const& sample) {
        if (samples_++ == 0) first_ = sample.elapsed;
        last_ = sample.elapsed;
        cpu_.add(sample.host.cpu);
        memory_.add(number(sample.host.memory_used));
        memory_percent_.add(sample.host.memory_percent());
        if (sample.host.memory_total) memory_total_ = sample.host.memory_total;
        if (sample.host.energy) energy_ = sample.host.energy;
        for (std::size_t i = 0; i < devices_.size() && i < sample.devices.size(); ++i)
            devices_[i].add(sample.devices[i], sample.elapsed);
    }
    /// Notes that so many looks were left out.
    void skip(std::uint64_t beats) { skipped_ += beats; }

    [[nodiscard]] MonitorSummary summary() const {
        MonitorSummary out;
        out.duration = last_ - first_;
        out.samples = samples_;
        out.skipped = skipped_;
        out.host_cpu = cpu_.summary();
        out.host_memory_used = memory_.summary();
        out.host_memory_percent = memory_percent_.summary();
        out.host_memory_total = memory_total_;
        out.host_energy = energy_;
        std::size_t with_energy = 0;
        std::size_t with_utilization = 0;
        std::size_t with_memory = 0;
        double joules = 0.0;
        double percent = 0.0;
        double most = 0.0;
        double mebibytes = 0.0;
        for (auto const& device : devices_) {
            auto const one = device.summary();
            constexpr double mebibyte = 1048576.0;
            auto& utilization = out.avg_utilization_per_gpu.emplace_back();
            auto& memory = out.avg_memory_per_gpu_mb.emplace_back();
            if (one.utilization) {
                utilization = one.utilization->mean;
                percent += one.utilization->mean;
                most = std::max(most, one.utilization->max);
                ++with_utilization;
            }
            if (one.memory_used) {
                memory = one.memory_used->mean / mebibyte;
                mebibytes += *memory;
                ++with_memory;
            }
            if (one.energy) joules += *one.energy, ++with_energy;
            out.devices.push_back(one);
        }
        // A total that lacks a device would be a wrong one.
        auto const all = devices_.size();
        if (all > 0 && with_utilization == all) out.total_avg_utilization = percent, out.total_max_utilization = most;
        if (most > 0.0 || (all > 0 && with_utilization == all)) out.any_gpu_active = most > 0.0;
        if (all > 0 && with_memory == all) out.total_avg_memory_mb = mebibytes;
        if (all > 0 && with_energy == all) out.energy = joules;
        return out;
    }

private:
    static std::optional<double> number(std::optional<Bytes> bytes) {
        if (!bytes) return std::nullopt;
        return static_cast<double>(bytes->count());
    }

    class Device {
    public:
        void add(DeviceSample const& sample, double elapsed) {
            is_lost_ = is_lost_ || sample.is_lost;
            utilization_.add(sample.utilization);
            memory_.add(number(sample.memory_used));
            memory_percent_.add(sample.memory_percent());
            temperature_.add(sample.temperature);
            power_.add(sample.power);
            if (sample.memory_total) memory_total_ = sample.memory_total;
            if (sample.energy) counted_ = sample.energy;
            if (!sample.power) return;
            if (last_power_) {
                joules_ += (elapsed - last_time_) * (*sample.power + *last_power_) / 2.0;
                has_trapezoid_ = true;
            }
            last_power_ = sample.power;
            last_time_ = elapsed;
        }
        [[nodiscard]] DeviceSummary summary() const {
            DeviceSummary out;
            out.utilization = utilization_.summary();
            out.memory_used = memory_.summary();
            out.memory_percent = memory_percent_.summary();
            out.temperature = temperature_.summary();
            out.power = power_.summary();
            out.memory_total = memory_total_;
            out.is_lost = is_lost_;
            if (counted_) {
                out.energy = counted_;
                out.energy_source = EnergySource::counter;
            } else if (has_trapezoid_) {
                out.energy = joules_;
                out.energy_source = EnergySource::power;
            }
            return out;
        }

    private:
        RunningSeries utilization_, memory_, memory_percent_, temperature_, power_;
        std::optional<Bytes> memory_total_{};
        std::optional<double> counted_{};
        std::optional<double> last_power_{};
        double last_time_ = 0.0;
        double joules_ = 0.0;
        bool has_trapezoid_ = false;
        bool is_lost_ = false;
    };

    std::uint64_t samples_ = 0;
    std::uint64_t skipped_ = 0;
    double first_ = 0.0;
    double last_ = 0.0;
    RunningSeries cpu_, memory_, memory_percent_;
    std::optional<Bytes> memory_total_{};
    std::optional<double> energy_{};
    std::vector<Device> devices_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
