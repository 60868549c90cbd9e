// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/placement/map_entry.hpp>
#include <shardwise/placement/placement.hpp>
#include <shardwise/placement/sequence_builder.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// An entry whose name is somebody else's, and whether it names a tensor rather than a module.
struct NamedEntry {
    std::string_view prefix;
    DeviceId device{};
    bool is_tensor = false;
};

/// Joins entries whose whole parent is on one device, from the outermost prefix inwards. The only tensor of a module
/// stands under the module's name: accelerate hooks modules, not tensors. Hands what is left to take(prefix, device).
///
/// Order  entries of one module follow one another, as in registration order
template <class Take>
void merge_entries(List<NamedEntry> const& entries, std::size_t begin, std::size_t end, std::size_t depth, Take& take) {
    bool is_one_device = true;
    for (auto i = begin + 1; i < end; ++i) is_one_device = is_one_device && entries[i].device == entries[begin].device;
    auto const first = entries[begin].prefix;
    if (is_one_device) {
        bool const is_whole = end - begin == 1 && depth > 0 && !entries[begin].is_tensor;
        take(is_whole ? first : first.substr(0, depth == 0 ? 0 : depth - 1), entries[begin].device);
        return;
    }
    for (auto i = begin; i < end;) {
        auto const dot = entries[i].prefix.find('.', depth);
        if (dot == std::string_view::npos) {
            take(entries[i].prefix, entries[i].device);
            ++i;
            // Tied tensors of a unit that is named whole: joined they would name more than themselves.
            auto const whole = entries[i - 1].prefix;
            for (; i < end && is_prefix(whole, entries[i].prefix); ++i) take(entries[i].prefix, entries[i].device);
            continue;
        }
        auto const component = entries[i].prefix.substr(0, dot + 1);
        auto last = i;
        while (last < end && entries[last].prefix.compare(0, component.size(), component) == 0) ++last;
        merge_entries(entries, i, last, component.size(), take);
        i = last;
    }
}

}  // namespace detail

/// The device map of a placement: tied names beside the units, prefixes joined where a whole module is on one device.
///
/// Order  registration order, tied names last within their module
[[nodiscard]] inline List<MapEntry> map_entries(ModuleSequence const& modules, Budgets const& budgets,
                                                       Placement const& placement) {
    auto const device_of = [&](std::size_t unit) { return budgets[static_cast<std::size_t>(placement.device_of[unit])].id; };
    List<detail::NamedEntry> entries;
    entries.reserve(modules.units.size() + modules.tied.size());
    for (std::size_t i = 0; i < modules.units.size(); ++i) {
        entries.push_back({modules.units[i].path, device_of(i), modules.units[i].is_tensor});
    }
    for (auto const& tied : modules.tied) {
        // After the last entry that shares the longest run of components, so that modules stay together.
        std::size_t place = entries.size();
        for (auto parent = tied.path; !parent.empty() && place == entries.size();) {
            auto const dot = parent.rfind('.');
            parent = dot == std::string_view::npos ? std::string_view{} : parent.substr(0, dot);
            if (parent.empty()) break;
            for (std::size_t i = entries.size(); i-- > 0;) {
                if (!detail::is_prefix(parent, entries[i].prefix)) continue;
                place = i + 1;
                break;
            }
        }
        auto const device = device_of(static_cast<std::size_t>(tied.unit));
        // A unit that keeps its own tensors is named whole; its tied tensor needs an entry only on another device.
        bool is_named = false;
        for (auto const& entry : entries) is_named = is_named || (detail::is_prefix(entry.prefix, tied.path) && entry.device == device);
        if (!is_named) {
            entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(place),
                           {tied.path, device, tied.is_tensor});
        }
    }
    List<MapEntry> merged;
    if (entries.empty()) return merged;
    // Counted first: growing a list of this length would take twice as much for a moment.
    std::size_t size = 0;
    auto count = [&size](std::string_view, DeviceId) { ++size; };
    detail::merge_entries(entries, 0, entries.size(), 0, count);
    merged.reserve(size);
    auto append = [&merged](std::string_view prefix, DeviceId device) {
        merged.push_back({std::string(prefix), device});
    };
    detail::merge_entries(entries, 0, entries.size(), 0, append);
    return merged;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
