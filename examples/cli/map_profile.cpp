// SPDX-License-Identifier: Apache-2.0
#include "map_profile.hpp"

#include <shardwise/cost/profile_json.hpp>

#include "text.hpp"

namespace shardwise::cli {

namespace {

/// The first of many, and how many more there are.
[[nodiscard]] std::string shortened(std::vector<std::string> const& names) {
    constexpr std::size_t most = 3;
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + escaped(names[i]);
    if (names.size() > most) text += " and " + grouped(static_cast<std::int64_t>(names.size() - most)) + " more";
    return text;
}

void warn(MeasuredDevice const& device, MapRequest const& request, MapAnswer& answer, std::int64_t context) {
    auto const times =
        device.slowdown > 0.0 ? ", " + decimals(device.slowdown, 2) + " times the roofline model's time" : "";
    if (device.measured_as.empty()) {
        answer.warnings.push_back("--profile: has no times on " + escaped(device.name) + ": all are estimated" + times);
        return;
    }
    if (!device.estimated.empty()) {
        answer.warnings.push_back("--profile: " + escaped(device.name) + " was not measured in " +
                                  shortened(device.estimated) + ": estimated" + times);
    }
    if (context > 0 && (device.batch != request.estimate.batch || device.context != context)) {
        answer.warnings.push_back("--profile: " + escaped(device.name) + " was measured at batch " +
                                  grouped(device.batch) + ", context " + grouped(device.context) + ", not at batch " +
                                  grouped(request.estimate.batch) + ", context " + grouped(context));
    }
}

}  // namespace

Result<> read_profile_option(Arguments const& arguments, MapRequest& request) {
    if (!arguments.profile) return {};
    auto const excludes = [](std::string_view flags, std::string_view why, std::string_view advice) {
        return Error{ErrorCode::invalid_argument}.in(flags).because(why).fix(advice);
    };
    if (request.dialect != MapDialect::shardwise)
        return excludes("--profile, --dialect " + std::string(name_of(request.dialect)), "that dialect knows no times",
                        "use --dialect shardwise");
    if (request.strategy == MapStrategy::custom)
        return excludes("--profile, --strategy custom", "a custom map is taken as it is", "leave --profile out");
    if (arguments.objective && request.objective == Objective::load)
        return excludes("--profile, --objective load", "load counts bytes, not times",
                        "use --objective bottleneck or latency");
    if (!arguments.objective) request.objective = Objective::bottleneck;
    auto profile = read_profile_file(*arguments.profile);
    if (!profile) return profile.error();
    request.profile = *std::move(profile);
    return {};
}

Result<> apply_profile_option(PlacementTask const& task, MapRequest const& request, ModuleSequence& modules,
                              Budgets& budgets, MapAnswer& answer) {
    if (!request.profile) return {};
    auto const context = task.model() == nullptr ? 0 : context_of(request.estimate, task.model()->config);
    auto const batch = task.model() == nullptr ? 0 : request.estimate.batch;
    auto times = apply_profile(*request.profile, task.tree(), request.devices, batch, context, modules, budgets);
    if (!times) {
        Error error = times.error();
        return error.in("--profile");
    }
    for (auto const& device : times->devices) warn(device, request, answer, context);
    answer.times = *std::move(times);
    return {};
}

std::string profile_text(MapAnswer const& answer) {
    std::string conditions;
    for (auto const& device : answer.times->devices) {
        if (device.measured_as.empty() || !conditions.empty()) continue;
        conditions = " at batch " + grouped(device.batch) + ", context " + grouped(device.context);
    }
    return "times measured: " + std::string(answer.times->phase == Phase::decode ? "decode" : "prefill") + conditions +
           " (" + escaped(answer.profile) + ")";
}

}  // namespace shardwise::cli
