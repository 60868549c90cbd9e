// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/system/system_files.hpp>
#include <shardwise/hardware/vendor/call_watch.hpp>
#include <shardwise/hardware/vendor/pci_path.hpp>
#include <shardwise/monitor/counter_track.hpp>
#include <shardwise/monitor/device_sample.hpp>
#include <shardwise/monitor/kept_file.hpp>
#include <shardwise/monitor/monitor_notes.hpp>

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// An AMD GPU that is looked at again and again, by what its driver shows below /sys: no library is needed, and no call
/// waits (pcie_bw, which sleeps for a second, is not read).
///
/// Source  Linux Documentation/gpu/amdgpu/thermal.rst and Documentation/hwmon/sysfs-interface.rst
class AmdWatch {
public:
    /// `pci` is its place on the bus, `name` how notes call it.
    AmdWatch(SystemFiles const& files, CallWatch& watch, std::string_view pci, std::string name)
        : watch_(&watch), name_(std::move(name)) {
        auto const address = detail::parse_pci_address(pci);
        if (!address) return;
        auto const device = "/sys/bus/pci/devices/" + detail::kernel_name(*address);
        auto const open = [&files](std::string const& path) { return KeptFile(files.path_of(path)); };
        busy_ = open(device + "/gpu_busy_percent");
        memory_busy_ = open(device + "/mem_busy_percent");
        used_ = open(device + "/mem_info_vram_used");
        total_ = open(device + "/mem_info_vram_total");
        for (auto const number : files.numbered(device + "/hwmon", "hwmon")) {
            auto const sensors = device + "/hwmon/hwmon" + std::to_string(number) + "/";
            if (temperature_.is_open()) break;
            // 1 is the edge, 2 the hottest place, 3 the memory; cards of data centers have no edge.
            temperature_ = open(sensors + "temp1_input");
            if (!temperature_.is_open()) temperature_ = open(sensors + "temp2_input");
            memory_temperature_ = open(sensors + "temp3_input");
            power_ = open(sensors + "power1_average");
            if (!power_.is_open()) power_ = open(sensors + "power1_input");
            energy_file_ = open(sensors + "energy1_input");
            clock_ = open(sensors + "freq1_input");
            memory_clock_ = open(sensors + "freq2_input");
        }
    }

    /// Looks once more.
    void read(DeviceSample& out, MonitorNotes& notes) {
        out = {};
        watch_->begin("read of amdgpu's files below /sys");
        // Percent, bytes, millidegrees, microwatts, microjoules, hertz.
        if (auto const value = ask(busy_, notes); value && *value >= 0 && *value <= 100)
            out.utilization = static_cast<double>(*value);
        if (auto const value = ask(memory_busy_, notes); value && *value >= 0 && *value <= 100)
            out.dram_activity = static_cast<double>(*value);
        if (auto const value = ask(used_, notes); value && *value >= 0) out.memory_used = Bytes{*value};
        if (auto const value = ask(total_, notes); value && *value > 0) out.memory_total = Bytes{*value};
        out.temperature = scaled(ask(temperature_, notes), 1e-3);
        out.memory_temperature = scaled(ask(memory_temperature_, notes), 1e-3);
        out.power = scaled(ask(power_, notes), 1e-6);
        out.clock = scaled(ask(clock_, notes), 1.0);
        out.memory_clock = scaled(ask(memory_clock_, notes), 1.0);
        if (auto const value = ask(energy_file_, notes); value && *value >= 0) {
            energy_.advance(static_cast<std::uint64_t>(*value));
            out.energy = energy_.total() * 1e-6;
        }
        if (!is_lost_) return;
        out = {};
        out.is_lost = true;
    }

private:
    static std::optional<double> scaled(std::optional<std::int64_t> value, double unit) {
        if (!value) return std::nullopt;
        return static_cast<double>(*value) * unit;
    }
    std::optional<std::int64_t> ask(KeptFile& file, MonitorNotes& notes) {
        if (is_lost_) return std::nullopt;
        auto const value = file.integer();
        auto const problem = value ? 0 : file.problem();
        if (problem == ENODEV || problem == ENXIO) {
            is_lost_ = true;
            notes.add(name_ + " is lost (" + file.path() + ": no such device): its values end here; see dmesg");
        } else if (problem == EACCES || problem == EPERM) {
            notes.add(name_ + ": " + file.path() + " may not be read by this user; chmod a+r, or the group render, mends it");
        }
        return value;
    }

    CallWatch* watch_;
    std::string name_;
    KeptFile busy_, memory_busy_, used_, total_, temperature_, memory_temperature_, power_, energy_file_, clock_, memory_clock_;
    CounterTrack energy_;
    bool is_lost_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
