// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/device.hpp>
#include <shardwise/hardware/system/system_files.hpp>
#include <shardwise/hardware/system/system_memory.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One level of the processor's caches.
struct ProcessorCache {
    int level = 0;
    /// "data", "instruction" or "unified"
    std::string type;
    /// Of one cache.
    Bytes size{};
    /// How many of them the machine has.
    int count = 0;
};

/// A part of the machine whose memory is near to some of its processors.
struct NumaNode {
    std::int32_t number = 0;
    std::vector<std::int64_t> processors;
    Bytes total{};
    Bytes free{};
    /// To each node, in their order; 10 is the node itself (ACPI SLIT).
    std::vector<std::int64_t> distances;
};

/// The processors of this machine.
struct Processor {
    std::string name;
    /// Physical cores and hardware threads that are online.
    int cores = 0;
    int threads = 0;
    /// Threads that this process may run on: its affinity, and the quota of its control group, rounded up.
    int usable_threads = 0;
    /// The highest clock; 0 where unknown.
    double hertz = 0.0;
    /// Instruction sets that matter for inference, in the kernel's words.
    std::vector<std::string> flags;
    std::vector<ProcessorCache> caches;
    std::vector<NumaNode> nodes;
};

namespace detail {

/// The value of the first row "key : value" of /proc/cpuinfo.
[[nodiscard]] inline std::string_view cpuinfo_row(std::string_view table, std::string_view key) {
    for (auto const line : split_text(table, '\n')) {
        auto const colon = line.find(':');
        if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == key)
            return trimmed(line.substr(colon + 1));
    }
    return {};
}

inline constexpr std::array<std::string_view, 27> telling_flags{
    "sse4_2",   "avx",         "avx2",        "fma",         "f16c",    "avx_vnni", "avx512f",  "avx512dq", "avx512bw",
    "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx10_1", "avx10_2",  "amx_tile", "amx_int8", "amx_bf16",
    "amx_fp16", "asimd",       "asimdhp",     "asimddp",     "i8mm",    "bf16",     "sve",      "sve2",     "sme"};

/// Reads /proc/cpuinfo and /sys/devices/system.
class ProcessorReader {
public:
    explicit ProcessorReader(SystemFiles const& files) : files_(files) {}

    [[nodiscard]] Processor read() const {
        Processor processor;
        auto const table = files_.text("/proc/cpuinfo").value_or("");
        processor.name = name_of(table);
        auto online = parse_number_list(files_.text("/sys/devices/system/cpu/online").value_or(""));
        if (online.empty()) online = listed(table);
        processor.threads = static_cast<int>(online.size());
        processor.cores = count_cores(online);
        processor.usable_threads = usable(online);
        processor.hertz = clock(table);
        auto const flags = split_text(cpuinfo_row(table, has_row(table, "flags") ? "flags" : "Features"), ' ');
        for (auto const flag : telling_flags) {
            if (std::find(flags.begin(), flags.end(), flag) != flags.end()) processor.flags.emplace_back(flag);
        }
        read_caches(processor, online);
        for (auto const number : files_.numbered("/sys/devices/system/node", "node"))
            processor.nodes.push_back(node(number));
        return processor;
    }

private:
    static bool has_row(std::string_view table, std::string_view key) { return !cpuinfo_row(table, key).empty(); }

    static std::string name_of(std::string_view table) {
        for (auto const* key : {"model name", "Model", "Hardware", "cpu"}) {
            if (auto const name = cpuinfo_row(table, key); !name.empty()) return std::string(name);
        }
        auto const implementer = cpuinfo_row(table, "CPU implementer");
        if (implementer.empty()) return "cpu";
        return "ARM implementer " + std::string(implementer) + " part " + std::string(cpuinfo_row(table, "CPU part"));
    }
    static std::vector<std::int64_t> listed(std::string_view table) {
        std::vector<std::int64_t> processors;
        for (auto const line : split_text(table, '\n')) {
            auto const colon = line.find(':');
            if (colon == std::string_view::npos || trimmed(line.substr(0, colon)) != "processor") continue;
            if (auto const number = to_integer(line.substr(colon + 1))) processors.push_back(*number);
        }
        return processors;
    }
    static std::string folder(std::int64_t processor) {
        return "/sys/devices/system/cpu/cpu" + std::to_string(processor);
    }
    [[nodiscard]] int count_cores(std::vector<std::int64_t> const& online) const {
        std::set<std::pair<std::int64_t, std::int64_t>> cores;
        for (auto const processor : online) {
            auto const core = files_.integer(folder(processor) + "/topology/core_id");
            if (!core) return static_cast<int>(online.size());
            cores.emplace(files_.integer(folder(processor) + "/topology/physical_package_id").value_or(0), *core);
        }
        return static_cast<int>(cores.size());
    }

    [[nodiscard]] int usable(std::vector<std::int64_t> const& online) const {
        auto const status = files_.text("/proc/self/status").value_or("");
        auto const allowed = parse_number_list(cpuinfo_row(status, "Cpus_allowed_list"));
        auto count = static_cast<std::int64_t>(online.size());
        if (!allowed.empty()) {
            count = std::count_if(online.begin(), online.end(), [&allowed](std::int64_t processor) {
                return std::binary_search(allowed.begin(), allowed.end(), processor);
            });
        }
        auto const groups = files_.text("/proc/self/cgroup").value_or("");
        for (auto const line : split_text(groups, '\n')) {
            if (line.substr(0, 3) == "0::") count = std::min(count, quota(std::string(line.substr(3)), count));
        }
        return static_cast<int>(std::max<std::int64_t>(count, 1));
    }
    /// The fewest processors that cpu.max of a group and of those around it allow.
    [[nodiscard]] std::int64_t quota(std::string group, std::int64_t most) const {
        if (group == "/" || group.find("..") != std::string::npos) group.clear();
        while (true) {
            auto const words = files_.word("/sys/fs/cgroup" + group + "/cpu.max").value_or("");
            auto const blank = words.find(' ');
            auto const allowed = to_integer(std::string_view{words}.substr(0, blank));
            auto const period =
                blank == std::string::npos ? allowed : to_integer(std::string_view{words}.substr(blank));
            if (allowed && period && *allowed > 0 && *period > 0) most = std::min(most, (*allowed - 1) / *period + 1);
            if (group.empty()) return most;
            group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
        }
    }

    [[nodiscard]] double clock(std::string_view table) const {
        auto const kilohertz = files_.integer(folder(0) + "/cpufreq/cpuinfo_max_freq");
        if (kilohertz && *kilohertz > 0) return static_cast<double>(*kilohertz) * 1e3;
        // Virtual machines show only the current clock.
        auto const megahertz = cpuinfo_row(table, "cpu MHz");
        auto const whole = to_integer(megahertz.substr(0, megahertz.find('.')));
        return whole && *whole > 0 ? static_cast<double>(*whole) * 1e6 : 0.0;
    }

    void read_caches(Processor& processor, std::vector<std::int64_t> const& online) const {
        struct Key {
            std::int64_t level;
            std::string type;
            std::int64_t size;
            bool operator<(Key const& other) const {
                return std::tie(level, type, size) < std::tie(other.level, other.type, other.size);
            }
        };
        // Not sets: hipcc 5.2 crashes at a map of sets.
        std::map<Key, std::vector<std::string>> found;
        for (auto const number : online) {
            auto const caches = folder(number) + "/cache";
            for (auto const index : files_.numbered(caches, "index")) {
                auto const cache = caches + "/index" + std::to_string(index);
                auto type = files_.word(cache + "/type").value_or("");
                std::transform(type.begin(), type.end(), type.begin(), [](char letter) { return to_lower(letter); });
                Key key{files_.integer(cache + "/level").value_or(0), std::move(type),
                        cache_size(files_.word(cache + "/size").value_or(""))};
                if (key.level <= 0 || key.level > 9 || key.size <= 0) continue;
                auto owner = files_.word(cache + "/shared_cpu_list").value_or(std::to_string(number));
                auto& owners = found[std::move(key)];
                if (std::find(owners.begin(), owners.end(), owner) == owners.end()) owners.push_back(std::move(owner));
            }
        }
        for (auto const& [key, owners] : found) {
            processor.caches.push_back(
                {static_cast<int>(key.level), key.type, Bytes{key.size}, static_cast<int>(owners.size())});
        }
    }
    static char to_lower(char letter) {
        return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    }
    /// "32K", "96M"
    static std::int64_t cache_size(std::string_view text) {
        std::int64_t unit = 1;
        if (!text.empty() && text.back() == 'K') unit = 1 << 10;
        if (!text.empty() && text.back() == 'M') unit = 1 << 20;
        if (unit > 1) text.remove_suffix(1);
        auto const number = to_integer(text).value_or(0);
        return number < 0 || number > (std::int64_t{1} << 40) / unit ? 0 : number * unit;
    }

    [[nodiscard]] NumaNode node(std::int64_t number) const {
        auto const at = "/sys/devices/system/node/node" + std::to_string(number);
        NumaNode node;
        node.number = static_cast<std::int32_t>(std::min<std::int64_t>(number, INT32_MAX));
        node.processors = parse_number_list(files_.text(at + "/cpulist").value_or(""));
        auto const table = files_.text(at + "/meminfo").value_or("");
        node.total = meminfo_row(table, "MemTotal").value_or(Bytes{});
        node.free = meminfo_row(table, "MemFree").value_or(Bytes{});
        auto const distances = files_.word(at + "/distance").value_or("");
        for (auto const word : split_text(distances, ' ')) {
            if (auto const distance = to_integer(word)) node.distances.push_back(*distance);
        }
        return node;
    }

    SystemFiles const& files_;
};

}  // namespace detail

/// The processors of this machine, as its kernel describes them.
[[nodiscard]] inline Processor read_processor(SystemFiles const& files) {
    return detail::ProcessorReader(files).read();
}

/// The peak rates of all physical cores: fused multiply-adds of the widest vectors at the highest clock, which is more
/// than long runs hold. 0 where the clock is unknown.
///
/// Source  per core and clock, two units: AVX-512 64, AVX2 with FMA 32, ASIMD 16 and SSE 8 fp32 operations (Intel's and
///         Arm's optimization guides); AMX 1024 bf16 and 2048 int8 operations (TDPBF16PS: 16 x 16 x 32 multiply-adds in
///         16 clocks)
[[nodiscard]] inline PeakRates peak_rates(Processor const& processor) {
    auto const has = [&processor](std::string_view flag) {
        return std::find(processor.flags.begin(), processor.flags.end(), flag) != processor.flags.end();
    };
    auto const clocks = processor.hertz * processor.cores;
    bool const is_fused = has("avx2") && has("fma");
    PeakRates peak;
    peak.fp32 = clocks * (has("avx512f") ? 64.0 : is_fused ? 32.0 : has("asimd") ? 16.0 : 8.0);
    peak.fp64 = peak.fp32 / 2;
    peak.bf16 = has("amx_bf16") ? clocks * 1024.0 : has("avx512_bf16") || has("bf16") ? peak.fp32 * 2 : peak.fp32;
    peak.fp16 = has("amx_fp16") ? clocks * 1024.0 : has("avx512_fp16") || has("asimdhp") ? peak.fp32 * 2 : peak.fp32;
    peak.int8 = has("amx_int8")                                           ? clocks * 2048.0
                : has("avx512_vnni") || has("avx_vnni") || has("asimddp") ? peak.fp32 * 4
                                                                          : peak.fp32;
    return peak;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
