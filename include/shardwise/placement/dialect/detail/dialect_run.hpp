// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/placement/dialect/detail/greedy_map.hpp>
#include <shardwise/placement/dialect/detail/merged_entries.hpp>
#include <shardwise/placement/dialect/detail/size_table.hpp>
#include <shardwise/placement/dialect/dialect_map.hpp>
#include <shardwise/placement/max_memory.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Limits beyond this are all the same to a model of at most 2^53 elements, and sums of theirs stay within 63 bits.
inline constexpr std::int64_t highest_limit = std::int64_t{1} << 51U;

/// The devices of a greedy map, in bits and without disk.
[[nodiscard]] inline std::vector<GreedyDevice> greedy_devices(MaxMemory const& max_memory) {
    std::vector<GreedyDevice> devices;
    for (auto const& entry : max_memory.limits()) {
        if (entry.device.kind == DeviceClass::disk) continue;
        GreedyDevice device{};
        device.device = entry.device;
        device.limit = std::min(entry.limit.count(), highest_limit) * 8;
        devices.push_back(device);
    }
    return devices;
}

/// Whether instances of each class are kept whole, by class id.
[[nodiscard]] inline std::vector<char> whole_classes(ExpandedTree const& tree,
                                                     std::span<std::string_view const> names) {
    std::vector<char> is_whole;
    for (auto const name : tree.class_names()) {
        is_whole.push_back(std::find(names.begin(), names.end(), name) != names.end() ? 1 : 0);
    }
    return is_whole;
}

/// How a dialect fills devices once their limits are set.
struct FillSettings {
    std::vector<char> is_whole;
    bool has_fallback = false;
    TieRule ties = TieRule::per_parameter;
    bool offloads_buffers = false;
    bool merges = true;
    std::string_view library = "accelerate";
};

/// Says that the library fails where this map does not.
inline void mark_repaired(DialectMap& map, std::string_view library) {
    if (!map.is_repaired) {
        map.warnings.push_back(std::string(library) + " raises an exception on this input; this map is valid");
    }
    map.is_repaired = true;
}

/// The greedy map of a model on limited devices, with the disk last.
[[nodiscard]] inline DialectMap fill(ExpandedTree const& tree, SizeTable const& sizes,
                                     std::vector<GreedyDevice> devices, FillSettings const& settings) {
    std::vector<std::int64_t> limits;
    bool has_mps = false;
    std::size_t accelerators = 0;
    for (auto const& device : devices) {
        limits.push_back(device.limit);
        has_mps = has_mps || device.device.kind == DeviceClass::mps;
        if (device.device.is_accelerator()) ++accelerators;
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
        auto const kind = devices[i].device.kind;
        devices[i].is_main =
            has_mps ? kind == DeviceClass::mps : kind == DeviceClass::cpu || (accelerators > 0 && i == 0);
    }
    GreedyDevice disk{};
    disk.device = DeviceId::disk();
    disk.is_unlimited = true;
    devices.push_back(disk);

    DialectMap map;
    if (tree.module_count() == 0) return map;
    GreedyMap greedy(tree, sizes, devices, {settings.has_fallback, settings.ties, settings.is_whole});
    auto const placed = greedy.run();
    EntryMerger merger(tree, placed, settings.merges);
    map.entries = merger.run(devices);
    std::vector<std::int64_t> used(devices.size(), 0);
    for (auto const& entry : placed) {
        auto const index = entry.entry.index();
        used[entry.device] += entry.entry.is_tensor() ? sizes.of_tensor(index) : sizes.of_module(index);
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
        auto const budget = devices[i].is_unlimited ? std::nullopt : std::optional{Bytes{limits[i] / 8}};
        map.devices.push_back({devices[i].device, budget, Bytes{ceil_divide(used[i], 8)}});
    }

    if (!settings.offloads_buffers && accelerators > 0) {
        std::int64_t offloaded = 0;
        for (auto const& device : devices) offloaded += device.device.is_accelerator() ? 0 : device.buffers;
        bool is_room = offloaded == 0;
        for (auto const& device : devices) {
            is_room = is_room || (device.device.is_accelerator() && device.limit >= offloaded + device.used);
        }
        if (!is_room) {
            map.warnings.push_back("the buffers of offloaded modules need " +
                                   to_text(Bytes{ceil_divide(offloaded, 8)}) +
                                   ", which fits no GPU's remaining memory; offload buffers too");
        }
    }
    if (tree.has_buffers()) {
        if (auto const lost = merger.uncovered_buffers(); !lost.empty()) {
            map.warnings.push_back("no device is given to " + std::to_string(lost.size()) +
                                   " own buffers of split modules, " + tree.tensor_path(lost.front()) + " the first; " +
                                   std::string(settings.library) + " loses them");
        }
    }
    if (greedy.is_repaired()) mark_repaired(map, settings.library);
    return map;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
