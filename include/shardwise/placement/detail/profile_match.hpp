// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/stable_sort.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/cost/profile.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/placement/sequence_builder.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The refusal of a name that no module of the tree has; nothing where one has it.
[[nodiscard]] inline std::optional<Error> check_module_name(ModuleTree const& tree, std::string_view path) {
    if (path.empty() || tree.modules().empty()) return std::nullopt;
    auto const* module = &tree.module(tree.root());
    auto rest = path;
    while (true) {
        auto const dot = rest.find('.');
        auto const name = rest.substr(0, dot);
        auto const* child = find_child(tree, *module, name);
        if (child == nullptr) break;
        if (dot == std::string_view::npos) return std::nullopt;
        module = &tree.module(child->module);
        rest.remove_prefix(dot + 1);
    }
    for (std::uint32_t i = 0; i < module->tensor_count; ++i) {
        if (tree.tensor(*module, i).name == rest) return std::nullopt;
    }
    auto const prefix = path.substr(0, path.size() - rest.size());
    ClosestName closest(rest.substr(0, rest.find('.')).substr(0, 64));
    std::string numbers;
    for (std::uint32_t i = 0; i < module->child_count; ++i) {
        auto const& child = tree.child(*module, i);
        if (!child.name.empty()) closest.offer(child.name);
        if (child.name.empty() && child.count > 0)
            numbers = std::to_string(child.first) + " to " + std::to_string(child.first + child.count - 1);
    }
    Error error{ErrorCode::unknown_name};
    error.at(path).because("is no module of the model");
    if (!closest.best().empty())
        return error.fix("did you mean " + std::string(prefix) + std::string(closest.best()) + "?");
    if (!numbers.empty() && parse_number(rest.substr(0, rest.find('.'))))
        return error.fix("those of " + std::string(prefix.substr(0, prefix.size() - 1)) + " are numbered " + numbers);
    return error;
}

/// Finds the units that measured names mean.
class ProfileMatch {
public:
    ProfileMatch(ModuleSequence const& modules, ModuleTree const& tree)
        : tree_(tree), unit_count_(modules.units.size()) {
        for (std::size_t i = 0; i < unit_count_; ++i) units_.push_back({modules.units[i].path, i});
        for (auto const& tied : modules.tied) tied_.push_back({tied.path, static_cast<std::size_t>(tied.unit)});
        std::sort(units_.begin(), units_.end());
        std::sort(tied_.begin(), tied_.end());
    }

    /// The seconds of each unit, negative for units that were not measured; `share(unit)` weighs the units of a module that
    /// was measured as a whole.
    ///
    /// Errors  unknown_name with the closest name
    template <class Share>
    [[nodiscard]] Result<std::vector<double>> times(std::vector<DeviceProfile const*> const& profiles, Phase phase,
                                                    Share share) const {
        auto const entries = merged(profiles, phase);
        std::vector<double> times(unit_count_, -1.0);
        std::vector<Entry> above;
        for (auto const& entry : entries) {
            if (auto const refusal = check_module_name(tree_, entry.path)) return *refusal;
            if (auto const tied = holder(tied_, entry.path)) {
                if (is_topmost(entries, entry.path, tied->first.size())) add(times[tied->second], entry.seconds);
            } else if (auto const unit = holder(units_, entry.path)) {
                if (is_topmost(entries, entry.path, unit->first.size())) add(times[unit->second], entry.seconds);
            } else {
                above.push_back(entry);
            }
        }
        // The innermost first: what holds something measured is its sum, and adds nothing.
        std::sort(above.begin(), above.end(),
                  [](Entry const& a, Entry const& b) { return a.path.size() > b.path.size(); });
        for (auto const& entry : above) share_out(entry, share, times);
        return times;
    }

private:
    using Named = std::pair<std::string_view, std::size_t>;
    struct Entry {
        std::string_view path;
        double seconds = 0.0;
        double weight = 0.0;
    };

    static void add(double& sum, double seconds) { sum = sum < 0.0 ? seconds : sum + seconds; }

    /// One entry for each name: the mean of several, weighed by how often each was repeated.
    [[nodiscard]] static std::vector<Entry> merged(std::vector<DeviceProfile const*> const& profiles, Phase phase) {
        std::vector<Entry> all;
        for (auto const* profile : profiles) {
            auto const weight = static_cast<double>(profile->repeat);
            for (auto const& time : profile->modules) {
                auto const seconds = phase == Phase::decode ? time.decode : time.prefill;
                if (seconds >= 0.0) all.push_back({time.module, seconds, weight});
            }
        }
        detail::stable_sort(all.begin(), all.end(), [](Entry const& a, Entry const& b) { return a.path < b.path; });
        std::vector<Entry> out;
        for (auto const& entry : all) {
            if (out.empty() || out.back().path != entry.path) {
                out.push_back(entry);
                continue;
            }
            auto& mean = out.back();
            mean.weight += entry.weight;
            mean.seconds += (entry.seconds - mean.seconds) * (entry.weight / mean.weight);
        }
        return out;
    }

    /// The named thing at `path` or the closest above it.
    [[nodiscard]] static std::optional<Named> holder(std::vector<Named> const& sorted, std::string_view path) {
        while (true) {
            auto const at = std::lower_bound(sorted.begin(), sorted.end(), Named{path, 0});
            if (at != sorted.end() && at->first == path) return *at;
            auto const dot = path.rfind('.');
            if (path.empty()) return std::nullopt;
            path = dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
        }
    }

    /// True where no other entry lies between `path` and the first `inner` characters of it.
    [[nodiscard]] static bool is_topmost(std::vector<Entry> const& entries, std::string_view path, std::size_t inner) {
        auto above = path;
        while (above.size() > inner) {
            auto const dot = above.rfind('.');
            above = dot == std::string_view::npos ? std::string_view{} : above.substr(0, dot);
            if (above.size() < inner) break;
            auto const at =
                std::lower_bound(entries.begin(), entries.end(), above,
                                 [](Entry const& entry, std::string_view name) { return entry.path < name; });
            if (at != entries.end() && at->path == above) return false;
        }
        return true;
    }

    /// Gives the units below an entry their shares, unless one of them was measured by itself.
    template <class Share>
    void share_out(Entry const& entry, Share share, std::vector<double>& times) const {
        std::vector<std::size_t> below;
        double sum = 0.0;
        auto const prefix = entry.path.empty() ? std::string() : std::string(entry.path) + ".";
        for (auto at = std::lower_bound(units_.begin(), units_.end(), Named{prefix, 0});
             at != units_.end() && at->first.substr(0, prefix.size()) == prefix; ++at) {
            if (times[at->second] >= 0.0) return;
            below.push_back(at->second);
            sum += share(at->second);
        }
        for (auto const unit : below) {
            auto const part = sum > 0.0 ? share(unit) / sum : 1.0 / static_cast<double>(below.size());
            times[unit] = entry.seconds * part;
        }
    }

    ModuleTree const& tree_;
    std::size_t unit_count_;
    std::vector<Named> units_;
    std::vector<Named> tied_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
