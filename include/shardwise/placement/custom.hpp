// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/placement/map_entries.hpp>
#include <shardwise/placement/strategy.hpp>

#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A device map that the user wrote: prefixes of module names, or the roles `embedding`, `layer.N`, `norm`, `head`.
/// The longest prefix wins; `""` covers everything; capacities are not enforced (check used bytes against them).
///
/// Errors  not_covered names parameters that no key covers; no_such_device a device without a budget
struct Custom {
    std::string_view name = "custom";
    List<MapEntry> entries;

    Result<Placement> operator()(ModuleSequence const& modules, Budgets const& budgets) const {
        Placement placement;
        std::string uncovered;
        std::size_t uncovered_count = 0;
        for (auto const& unit : modules.units) {
            auto const* entry = entry_for(unit.path, unit.role, unit.layer);
            if (entry == nullptr) {
                if (uncovered_count++ < 3) uncovered += (uncovered.empty() ? "" : ", ") + std::string(unit.path);
                continue;
            }
            std::int32_t device = -1;
            for (std::size_t i = 0; i < budgets.size(); ++i) {
                if (budgets[i].id == entry->device) device = static_cast<std::int32_t>(i);
            }
            if (device < 0) {
                auto const& id = entry->device;
                std::string named = "device " + std::to_string(id.index);
                if (id.kind == DeviceClass::mps) named = "mps";
                if (id.kind == DeviceClass::cpu) named = "cpu";
                if (id.kind == DeviceClass::disk) named = "disk";
                return Error{ErrorCode::no_such_device}
                    .in("custom map")
                    .at(entry->prefix.empty() ? "\"\"" : entry->prefix)
                    .because("is mapped to " + named + ", which has no budget")
                    .fix("name it in --devices or --max-memory");
            }
            placement.device_of.push_back(device);
        }
        if (uncovered_count > 0) {
            if (uncovered_count > 3) uncovered += " and " + std::to_string(uncovered_count - 3) + " more";
            return Error{ErrorCode::not_covered}.in("custom map").because("covers no device for " + uncovered)
                .fix("add their prefixes, or \"\" for everything else");
        }
        return placement;
    }

    /// What to tell the user: keys that name nothing (with the closest name), tied names that are asked for elsewhere.
    [[nodiscard]] List<std::string> warnings(ModuleSequence const& modules) const {
        List<std::string> found;
        for (auto const& entry : entries) {
            if (is_role(entry.prefix, modules)) continue;
            if (names_something(entry.prefix, modules)) continue;
            std::string text = "custom map: '" + escaped(entry.prefix) + "' names nothing in the model";
            auto const closest = closest_prefix(entry.prefix, modules);
            if (!closest.empty()) text += "; did you mean '" + std::string(closest) + "'?";
            found.push_back(text);
        }
        for (auto const& tied : modules.tied) {
            auto const& first = modules.units[static_cast<std::size_t>(tied.unit)];
            auto const* here = entry_for(tied.path, ModuleRole::none, LayerId{});
            auto const* there = entry_for(first.path, first.role, first.layer);
            if (here == nullptr || there == nullptr || here->device == there->device) continue;
            found.push_back("custom map: '" + std::string(tied.path) + "' is tied to '" + std::string(first.path) +
                            "' and stays on its device");
        }
        return found;
    }

private:
    [[nodiscard]] static bool names_something(std::string_view key, ModuleSequence const& modules) {
        for (auto const& unit : modules.units) {
            if (detail::is_prefix(key, unit.path)) return true;
        }
        for (auto const& tied : modules.tied) {
            if (detail::is_prefix(key, tied.path)) return true;
        }
        return false;
    }

    [[nodiscard]] static std::string_view closest_prefix(std::string_view key, ModuleSequence const& modules) {
        ClosestName closest(key);
        for (auto const& unit : modules.units) {
            for (auto end = unit.path.find('.');; end = unit.path.find('.', end + 1)) {
                closest.offer(unit.path.substr(0, end));
                if (end == std::string_view::npos) break;
            }
        }
        return closest.best();
    }

    [[nodiscard]] static std::string role_name(ModuleRole role, LayerId layer) {
        switch (role) {
            case ModuleRole::embedding: return "embedding";
            case ModuleRole::layer: return "layer." + std::to_string(layer.value());
            case ModuleRole::norm: return "norm";
            case ModuleRole::head: return "head";
            case ModuleRole::none: case ModuleRole::expert: break;
        }
        return {};
    }

    /// True where a key is a role and no real prefix of that name exists.
    [[nodiscard]] static bool is_role(std::string_view key, ModuleSequence const& modules) {
        bool is_role_of_unit = key == "head" || key == "embedding" || key == "norm";
        for (auto const& unit : modules.units) {
            if (!key.empty() && detail::is_prefix(key, unit.path)) return false;
            is_role_of_unit = is_role_of_unit || (unit.role == ModuleRole::layer && role_name(unit.role, unit.layer) == key);
        }
        return is_role_of_unit;
    }

    /// True where a prefix of a unit names its layer (has a number) or the module that the role stands for, or more.
    [[nodiscard]] static bool reaches_module(std::string_view prefix, std::string_view path, ModuleRole role) {
        if (prefix.empty()) return false;
        if (role != ModuleRole::layer) {
            return prefix.size() == path.size() || path.find('.', prefix.size() + 1) == std::string_view::npos;
        }
        for (std::size_t begin = 0; begin < prefix.size();) {
            auto const dot = prefix.find('.', begin);
            auto const end = dot == std::string_view::npos ? prefix.size() : dot;
            auto const component = prefix.substr(begin, end - begin);
            if (!component.empty() && component.find_first_not_of("0123456789") == std::string_view::npos) return true;
            begin = end + 1;
        }
        return false;
    }

    /// The longest matching prefix; a role counts as longer than any prefix that is not the unit's own.
    [[nodiscard]] MapEntry const* entry_for(std::string_view path, ModuleRole role, LayerId layer) const {
        MapEntry const* best = nullptr;
        for (auto const& entry : entries) {
            if (!detail::is_prefix(entry.prefix, path)) continue;
            if (best == nullptr || entry.prefix.size() >= best->prefix.size()) best = &entry;
        }
        if (best != nullptr && reaches_module(best->prefix, path, role)) return best;
        auto const name_of_role = role_name(role, layer);
        for (auto const& entry : entries) {
            if (!name_of_role.empty() && entry.prefix == name_of_role) return &entry;
        }
        return best;
    }
};

static_assert(PlacementStrategy<Custom>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
