// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/text.hpp>
#include <shardwise/cost/profile.hpp>
#include <shardwise/hardware/presets.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/placement/detail/profile_match.hpp>
#include <shardwise/placement/placement.hpp>
#include <shardwise/placement/stage_time.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where the times of one kind of device come from.
struct MeasuredDevice {
    std::string name;
    /// What the profile calls it; empty where it has no times of it.
    std::string measured_as;
    std::int64_t batch = 0;
    std::int64_t context = 0;
    /// Units with times of their own.
    std::size_t measured = 0;
    /// Units without, named by their paths: the roofline model's time, `slowdown` times.
    std::vector<std::string> estimated;
    /// How many times longer the measured units take than the roofline model says; 0 where nothing can be compared.
    double slowdown = 0.0;
};

/// How a profile was read into a placement problem.
struct MeasuredTimes {
    Phase phase = Phase::decode;
    std::vector<MeasuredDevice> devices;
};

namespace detail {

/// The preset that a name means, written as a SPEC or by a driver; else the name itself.
[[nodiscard]] inline std::string_view common_device_name(std::string_view name, Bytes memory) {
    auto const* preset = find_device_preset_for(name, memory);
    if (preset == nullptr) preset = find_device_preset(name);
    return preset == nullptr ? name : preset->name.view();
}

/// Fills in the measured times of one placement problem.
class ProfileApplier {
public:
    ProfileApplier(Profile const& profile, ModuleTree const& tree, ModuleSequence& modules, Budgets& budgets)
        : profile_(profile), tree_(tree), modules_(modules), budgets_(budgets) {}

    Result<MeasuredTimes> run(std::span<Device const> devices, std::int64_t batch, std::int64_t context) {
        find_kinds(devices);
        for (auto& kind : kinds_) choose(kind, batch, context);
        bool const is_known =
            std::any_of(kinds_.begin(), kinds_.end(), [](Kind const& kind) { return !kind.chosen.empty(); });
        if (!is_known) return no_device();
        result_.phase = has_decode() ? Phase::decode : Phase::prefill;
        ProfileMatch const match(modules_, tree_);
        for (auto& kind : kinds_) {
            auto times =
                match.times(kind.chosen, result_.phase, [&](std::size_t unit) { return roofline(unit, kind); });
            if (!times) return times.error();
            kind.times = *std::move(times);
        }
        if (auto const estimated = estimate_the_rest(); !estimated) return estimated.error();
        if (auto const checked = check_sum(); !checked) return checked.error();
        for (std::size_t unit = 0; unit < modules_.units.size(); ++unit) {
            auto& measured = modules_.units[unit].measured;
            measured.clear();
            for (auto const& kind : kinds_) measured.push_back(kind.times[unit]);
        }
        for (auto const& kind : kinds_) {
            for (auto const budget : kind.budgets)
                budgets_[budget].measured_as = static_cast<std::int32_t>(&kind - kinds_.data());
        }
        return std::move(result_);
    }

private:
    /// Devices of one name.
    struct Kind {
        Device device;
        std::vector<std::size_t> budgets;
        std::vector<DeviceProfile const*> chosen;
        std::vector<double> times;
    };

    void find_kinds(std::span<Device const> devices) {
        for (std::size_t i = 0; i < budgets_.size() && i < devices.size(); ++i) {
            std::size_t k = 0;
            while (k < kinds_.size() && kinds_[k].device.name.view() != devices[i].name.view()) ++k;
            if (k == kinds_.size()) {
                kinds_.push_back({devices[i], {}, {}, {}});
                result_.devices.push_back(
                    {.name = std::string(devices[i].name.view()), .measured_as = {}, .estimated = {}});
            }
            kinds_[k].budgets.push_back(i);
        }
    }

    /// The profile's own word for the device's name; empty where it does not have it.
    [[nodiscard]] std::string same_name(Device const& device) const {
        auto const name = common_device_name(device.name.view(), device.memory);
        for (auto const& each : profile_.devices) {
            if (equal_ignoring_case(common_device_name(each.device, device.memory), name)) return each.device;
        }
        return {};
    }
    /// What the profile calls the device; empty where it does not know it. Where it knows none by name, a device of which only
    /// the kind is known goes by the one name that the profile has; one of which only the memory is known always does.
    [[nodiscard]] std::string name_in_profile(Device const& device) const {
        if (auto name = same_name(device); !name.empty()) return name;
        bool is_one_name = true;
        for (auto const& each : profile_.devices)
            is_one_name = is_one_name && equal_ignoring_case(each.device, profile_.devices.front().device);
        bool const is_any_known = std::any_of(kinds_.begin(), kinds_.end(),
                                              [&](Kind const& kind) { return !same_name(kind.device).empty(); });
        auto const name = device.name.view();
        bool const is_generic = !is_any_known && (name == "cpu" || name == "gpu" || name == "mps");
        bool const is_anonymous = is_generic || (device.bandwidth <= 0.0 && device.id.is_accelerator());
        return is_anonymous && is_one_name && !profile_.devices.empty() ? profile_.devices.front().device
                                                                        : std::string();
    }

    /// The measurements of the device whose batch and context are closest to those asked for.
    void choose(Kind& kind, std::int64_t batch, std::int64_t context) {
        auto& answer = result_.devices[static_cast<std::size_t>(&kind - kinds_.data())];
        answer.measured_as = name_in_profile(kind.device);
        if (answer.measured_as.empty()) return;
        auto const distance = [&](DeviceProfile const& each) {
            auto const ratio = [](std::int64_t a, std::int64_t b) {
                return std::abs(std::log(static_cast<double>(a) / static_cast<double>(b)));
            };
            return (batch > 0 ? ratio(each.batch, batch) : 0.0) + (context > 0 ? ratio(each.context, context) : 0.0);
        };
        DeviceProfile const* closest = nullptr;
        for (auto const& each : profile_.devices) {
            if (!equal_ignoring_case(each.device, answer.measured_as)) continue;
            if (closest == nullptr || distance(each) < distance(*closest)) closest = &each;
        }
        answer.batch = closest->batch;
        answer.context = closest->context;
        for (auto const& each : profile_.devices) {
            bool const is_same = each.batch == closest->batch && each.context == closest->context;
            if (is_same && equal_ignoring_case(each.device, answer.measured_as)) kind.chosen.push_back(&each);
        }
    }

    [[nodiscard]] bool has_decode() const {
        for (auto const& kind : kinds_) {
            for (auto const* each : kind.chosen) {
                for (auto const& time : each->modules) {
                    if (time.decode >= 0.0) return true;
                }
            }
        }
        return false;
    }

    [[nodiscard]] Error no_device() const {
        std::string measured;
        for (auto const& each : profile_.devices) {
            if (measured.find(each.device) == std::string::npos)
                measured += (measured.empty() ? "" : ", ") + each.device;
        }
        std::string const wanted = kinds_.empty() ? std::string() : std::string(kinds_.front().device.name.view());
        return Error{ErrorCode::unknown_name}
            .at(wanted)
            .because("is not among the measured devices: " + measured)
            .fix("measure it, or name a device that was measured");
    }

    [[nodiscard]] double roofline(std::size_t unit, Kind const& kind) const {
        return estimated_seconds(modules_.units[unit], budgets_[kind.budgets.front()]);
    }

    /// How much longer the measured units of these kinds take than by the roofline model.
    [[nodiscard]] double slowdown_of(std::span<Kind const> kinds) const {
        double measured = 0.0;
        double expected = 0.0;
        for (auto const& kind : kinds) {
            for (std::size_t unit = 0; unit < kind.times.size(); ++unit) {
                auto const seconds = roofline(unit, kind);
                if (kind.times[unit] < 0.0 || seconds <= 0.0) continue;
                measured += kind.times[unit];
                expected += seconds;
            }
        }
        return expected > 0.0 ? measured / expected : 0.0;
    }

    Result<> estimate_the_rest() {
        auto const overall = slowdown_of(kinds_);
        for (std::size_t k = 0; k < kinds_.size(); ++k) {
            auto& kind = kinds_[k];
            auto& answer = result_.devices[k];
            auto const own = slowdown_of({&kind, 1});
            answer.slowdown = own > 0.0 ? own : overall;
            for (std::size_t unit = 0; unit < kind.times.size(); ++unit) {
                if (kind.times[unit] >= 0.0) {
                    ++answer.measured;
                    continue;
                }
                auto const path = modules_.units[unit].path;
                auto const seconds = roofline(unit, kind) * answer.slowdown;
                if (seconds <= 0.0) {
                    return Error{ErrorCode::missing_field}
                        .at(path)
                        .because("has no time on " + answer.name + ", and nothing is known to estimate it from")
                        .fix("measure it, or name the devices by --devices");
                }
                kind.times[unit] = seconds;
                answer.estimated.emplace_back(path);
            }
        }
        return {};
    }

    /// Sums of picoseconds must stay far below 2^63.
    [[nodiscard]] Result<> check_sum() const {
        double sum = 0.0;
        for (std::size_t unit = 0; unit < modules_.units.size(); ++unit) {
            double longest = 0.0;
            for (auto const& kind : kinds_) longest = kind.times[unit] > longest ? kind.times[unit] : longest;
            sum += longest;
        }
        if (sum <= 1e6) return {};
        return Error{ErrorCode::capacity_exceeded}
            .because("one step takes longer than can be planned for, in seconds")
            .at_most(1'000'000);
    }

    Profile const& profile_;
    ModuleTree const& tree_;
    ModuleSequence& modules_;
    Budgets& budgets_;
    std::vector<Kind> kinds_;
    MeasuredTimes result_;
};

}  // namespace detail

/// Replaces the roofline model's times of a placement problem by measured ones: `bottleneck` and `latency` then minimise
/// measured seconds, with the same proof.
///
/// A unit's time is that of its own name, else the sum of what was measured inside it; a tied name adds to the unit that
/// holds its tensor. What was measured as a whole and is cut into several units is split over them as the roofline model
/// would. What was not measured is the roofline model's time, as many times longer as the device's measured units are.
/// Decoding is used where any of it was measured, else prefill. `devices` are those of the budgets, in their order.
///
/// Errors  unknown_name for a module that the model has not, with the closest, and where no device was measured;
///         missing_field where a time can be neither read nor estimated; capacity_exceeded
[[nodiscard]] inline Result<MeasuredTimes> apply_profile(Profile const& profile, ModuleTree const& tree,
                                                         std::span<Device const> devices, std::int64_t batch,
                                                         std::int64_t context, ModuleSequence& modules,
                                                         Budgets& budgets) {
    return detail::ProfileApplier(profile, tree, modules, budgets).run(devices, batch, context);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
