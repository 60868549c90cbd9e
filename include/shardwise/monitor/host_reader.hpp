// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/system/system_files.hpp>
#include <shardwise/hardware/system/system_memory.hpp>
#include <shardwise/monitor/counter_track.hpp>
#include <shardwise/monitor/host_sample.hpp>
#include <shardwise/monitor/kept_file.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Reads the host again and again from files that stay open: processors, memory within control groups, pressure, energy.
///
/// Memory  what it holds after the first look does not grow
class HostReader {
public:
    explicit HostReader(SystemFiles const& files)
        : buffer_(buffer_bytes), stat_(files.path_of("/proc/stat")), memory_(files.path_of("/proc/meminfo")) {
        char const* const names[]{"cpu", "memory", "io"};
        for (std::size_t i = 0; i < 3; ++i)
            pressure_[i] = KeptFile(files.path_of(std::string("/proc/pressure/") + names[i]));
        auto const table = files.text("/proc/meminfo");
        auto const machine = table ? detail::meminfo_row(*table, "MemTotal").value_or(Bytes{}) : Bytes{};
        detail::ControlGroups(files, machine)
            .for_each_group([&](std::string const& folder, detail::ControlGroups::FileNames const& group) {
                Group found{KeptFile(files.path_of(folder + std::string(group.limit))),
                            KeptFile(files.path_of(folder + std::string(group.usage))),
                            KeptFile(files.path_of(folder + std::string(group.stat))), group.inactive};
                if (found.limit.is_open()) groups_.push_back(std::move(found));
            });
        open_energy(files);
        if (!pressure_[0].read(buffer_))
            notes_.emplace_back("/proc/pressure cannot be read: pressure stays unknown (Linux 4.20 with CONFIG_PSI, psi=1)");
    }

    /// Looks once more; `cores` gets the share of each processor.
    void read(HostSample& out, std::vector<float>& cores) {
        out = {};
        read_processors(out, cores);
        read_memory(out);
        read_pressure(out);
        read_energy(out);
    }

    /// Why something stays unknown, a sentence for each.
    [[nodiscard]] std::vector<std::string> const& notes() const { return notes_; }

private:
    /// The rows of 512 processors in /proc/stat, with room.
    static constexpr std::size_t buffer_bytes = 65536;

    struct Group {
        KeptFile limit, usage, stat;
        std::string_view inactive;
    };
    struct Package {
        KeptFile energy;
        /// Units  microjoules
        std::uint64_t range = 0;
        CounterTrack track{};
    };
    /// Units  the kernel's ticks
    struct Times {
        std::int64_t number = -1;
        std::uint64_t busy = 0;
        std::uint64_t total = 0;
    };

    void open_energy(SystemFiles const& files) {
        std::string const folder = "/sys/class/powercap";
        for (auto const number : files.numbered(folder, "intel-rapl:")) {
            auto const at = folder + "/intel-rapl:" + std::to_string(number);
            // "psys" is the whole machine, and holds the packages.
            if (files.word(at + "/name").value_or("").substr(0, 7) != "package") continue;
            auto const range = files.integer(at + "/max_energy_range_uj").value_or(0);
            packages_.push_back({KeptFile(files.path_of(at + "/energy_uj")),
                                 range > 0 ? static_cast<std::uint64_t>(range) + 1 : 0});
            auto const problem = packages_.back().energy.problem();
            if (problem == 0) continue;
            auto reason = at + "/energy_uj cannot be read (errno " + std::to_string(problem) + ")";
            if (problem == EACCES || problem == EPERM) {
                reason = at + "/energy_uj may not be read by this user (mode 0400 since Linux 5.10): the processors' energy "
                              "stays unknown; a udev rule mends it: SUBSYSTEM==\"powercap\", ACTION==\"add\", "
                              "RUN+=\"/bin/chmod a+r /sys%p/energy_uj\"";
            }
            notes_.push_back(std::move(reason));
            // A sum without one of its packages would be wrong.
            has_all_packages_ = false;
        }
        if (packages_.empty())
            notes_.emplace_back("there is no RAPL below /sys/class/powercap: the processors' energy stays unknown");
    }

    /// "cpu3 user nice system idle iowait irq softirq steal guest guest_nice": guests are counted in user and nice.
    static std::optional<Times> read_times(std::string_view line) {
        if (line.substr(0, 3) != "cpu") return std::nullopt;
        Times times;
        char const* at = line.data() + 3;
        char const* const end = line.data() + line.size();
        if (at != end && *at != ' ') at = std::from_chars(at, end, times.number).ptr;
        for (int column = 0; column < 8; ++column) {
            while (at != end && *at == ' ') ++at;
            std::uint64_t ticks = 0;
            auto const got = std::from_chars(at, end, ticks);
            if (got.ec != std::errc{}) return column < 4 ? std::nullopt : std::optional(times);
            at = got.ptr;
            times.total += ticks;
            if (column != 3 && column != 4) times.busy += ticks;
        }
        return times;
    }
    static std::optional<double> share(Times const& before, Times const& now) {
        // The kernel's counters of waiting may fall a little.
        if (now.number != before.number || now.total <= before.total) return std::nullopt;
        auto const busy = now.busy > before.busy ? static_cast<double>(now.busy - before.busy) : 0.0;
        return std::min(100.0, 100.0 * busy / static_cast<double>(now.total - before.total));
    }

    void read_processors(HostSample& out, std::vector<float>& cores) {
        cores.clear();
        auto text = stat_.read(buffer_);
        if (!text) return;
        std::size_t row = 0;
        while (!text->empty()) {
            auto const end = text->find('\n');
            auto const times = read_times(text->substr(0, end));
            if (!times) break;
            if (row < before_.size()) {
                auto const percent = share(before_[row], *times);
                before_[row] = *times;
                if (percent && row == 0) out.cpu = percent;
                if (percent && row > 0) {
                    cores.push_back(static_cast<float>(*percent));
                    out.busiest_core = std::max(out.busiest_core.value_or(0.0), *percent);
                }
            } else {
                before_.push_back(*times);
            }
            ++row;
            if (end == std::string_view::npos) break;
            text->remove_prefix(end + 1);
        }
    }

    void read_memory(HostSample& out) {
        auto const table = memory_.read(buffer_);
        if (!table) return;
        auto const row = [&](std::string_view name) -> std::optional<std::int64_t> {
            auto const at = table->find(name);
            if (at == std::string_view::npos) return std::nullopt;
            auto rest = table->substr(at + name.size());
            rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
            std::int64_t kibibytes = 0;
            auto const got = std::from_chars(rest.data(), rest.data() + rest.size(), kibibytes);
            if (got.ec != std::errc{} || kibibytes < 0 || kibibytes > INT64_MAX / 1024) return std::nullopt;
            return kibibytes * 1024;
        };
        auto const machine = row("MemTotal:");
        auto const free = row("MemAvailable:");
        if (!machine || !free) return;
        auto total = *machine;
        auto available = std::min(*free, total);
        for (auto& group : groups_) {
            // "max" is no number: no limit. As detail::ControlGroups does.
            auto const limit = group.limit.integer();
            if (!limit || *limit < 0 || *limit >= *machine) continue;
            total = std::min(total, *limit);
            auto const used = std::max<std::int64_t>(group.usage.integer().value_or(0) - inactive(group), 0);
            available = std::min(available, std::max<std::int64_t>(*limit - used, 0));
        }
        out.memory_total = Bytes{total};
        out.memory_used = Bytes{std::max<std::int64_t>(total - available, 0)};
    }
    /// File cache that the kernel gives back when memory is asked for.
    std::int64_t inactive(Group& group) {
        auto const table = group.stat.read(buffer_);
        for (auto at = table ? table->find(group.inactive) : std::string_view::npos; at != std::string_view::npos;
             at = table->find(group.inactive, at + 1)) {
            if (at > 0 && (*table)[at - 1] != '\n') continue;
            auto const rest = table->substr(at + group.inactive.size());
            std::int64_t bytes = 0;
            if (rest.empty() || rest[0] != ' ') continue;
            (void)std::from_chars(rest.data() + 1, rest.data() + rest.size(), bytes);
            return std::max<std::int64_t>(bytes, 0);
        }
        return 0;
    }

    /// The kernel renews these averages every 2 s (Linux kernel/sched/psi.c, PSI_FREQ): they are read twice a second at most.
    void read_pressure(HostSample& out) {
        auto const now = std::chrono::steady_clock::now();
        if (!has_waits_ || now - waits_read_ >= std::chrono::milliseconds(500)) {
            for (std::size_t i = 0; i < 3; ++i) waits_[i] = pressure(pressure_[i]);
            waits_read_ = now;
            has_waits_ = true;
        }
        out.cpu_pressure = waits_[0];
        out.memory_pressure = waits_[1];
        out.io_pressure = waits_[2];
    }
    /// "some avg10=1.25 avg60=..."
    std::optional<double> pressure(KeptFile& file) {
        auto const text = file.read(buffer_);
        constexpr std::string_view key = "some avg10=";
        auto const at = text ? text->find(key) : std::string_view::npos;
        if (at == std::string_view::npos) return std::nullopt;
        auto const rest = text->substr(at + key.size());
        std::int64_t whole = 0;
        std::int64_t hundredths = 0;
        auto const got = std::from_chars(rest.data(), rest.data() + rest.size(), whole);
        if (got.ec != std::errc{}) return std::nullopt;
        if (got.ptr != rest.data() + rest.size() && *got.ptr == '.')
            (void)std::from_chars(got.ptr + 1, std::min(got.ptr + 3, rest.data() + rest.size()), hundredths);
        return static_cast<double>(whole) + static_cast<double>(hundredths) / 100.0;
    }

    void read_energy(HostSample& out) {
        double joules = 0.0;
        for (auto& package : packages_) {
            auto const value = package.energy.integer();
            if (!value || *value < 0) return;
            package.track.advance(static_cast<std::uint64_t>(*value), package.range);
            joules += package.track.total() * 1e-6;
        }
        if (!packages_.empty() && has_all_packages_) out.energy = joules;
    }

    std::vector<char> buffer_;
    KeptFile stat_, memory_, pressure_[3];
    std::optional<double> waits_[3];
    std::chrono::steady_clock::time_point waits_read_{};
    bool has_waits_ = false;
    std::vector<Group> groups_;
    std::vector<Package> packages_;
    bool has_all_packages_ = true;
    std::vector<Times> before_;
    std::vector<std::string> notes_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
