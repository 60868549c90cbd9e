// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a published measurement of training or inference asks, and the cost model's answer.

#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/plan_cost.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace published {

using namespace shardwise;

/// What a row measured.
enum class Measure {
    step_seconds,         // one update of training
    trained_tokens,       // per second and device
    decoded_tokens,       // per second, of all devices together
    prompt_tokens,        // per second, of all devices together
    first_token_seconds,  // a prompt's time
    generated_tokens,     // per second and device: prompts and all their tokens, one static batch
};

struct Row {
    std::string name;
    std::string_view source;
    /// True where no constant was chosen by it.
    bool is_held_out = false;
    ModelConfig config;
    Device device{};
    std::int64_t devices_per_node = 8;
    EstimateRequest request{};
    PlanDegrees degrees{};
    /// Layers of a stage come in so many virtual stages.
    std::int64_t chunks = 1;
    Measure measure = Measure::step_seconds;
    std::int64_t prompt = 0;
    std::int64_t generated = 0;
    double theirs = 0.0;
};

/// Smaller is better for times, larger for rates.
[[nodiscard]] inline bool is_time(Measure measure) {
    return measure == Measure::step_seconds || measure == Measure::first_token_seconds;
}

[[nodiscard]] inline std::string_view unit_of(Measure measure) {
    switch (measure) {
        case Measure::step_seconds:
        case Measure::first_token_seconds:
            return "s";
        case Measure::trained_tokens:
        case Measure::generated_tokens:
            return "tokens/s/device";
        default:
            return "tokens/s";
    }
}

namespace detail {

/// A group whose ranks stand `stride` apart in a cluster of nodes of `per_node` devices.
[[nodiscard]] inline RankGroup group_of(Row const& row, std::int64_t ranks, std::int64_t stride) {
    auto const room = row.devices_per_node / stride;
    auto const in_node = room < 1 ? 1 : room < ranks ? room : ranks;
    return {ranks, in_node, row.device.link, row.device.network};
}

/// The plan's cost with every stage alike but for what stands before the first layer and after the last.
[[nodiscard]] inline PlanCost price(Row const& row, Model const& model, EstimateRequest const& request,
                                    Efficiency const& efficiency) {
    CostModel costs(model, request, efficiency);
    auto const& degrees = row.degrees;
    auto const place = degrees.tp * degrees.ep * degrees.dp;
    StageSite const site{&row.device, group_of(row, degrees.tp, 1), group_of(row, degrees.ep, degrees.tp),
                         group_of(row, degrees.dp, degrees.tp * degrees.ep),
                         place < row.devices_per_node ? row.device.link : row.device.network};
    List<PlanStage> stages;
    for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
        auto const layers = split_units(costs.layers(), degrees.pp, stage);
        stages.push_back({layers.begin, layers.size(), stage == 0, stage + 1 == degrees.pp, 0.0});
    }
    return plan_cost(costs, degrees, {stages.data(), stages.size()}, {&site, 1}, row.chunks);
}

}  // namespace detail

/// Our answer to a row, in the row's unit; negative where the model is not known.
[[nodiscard]] inline double answer(Row const& row, Efficiency const& efficiency = default_efficiency) {
    auto const model = describe(row.config);
    if (!model) return -1.0;
    auto request = row.request;
    auto const devices = static_cast<double>(row.degrees.ranks());
    auto const batch = static_cast<double>(request.batch);
    switch (row.measure) {
        case Measure::step_seconds:
            return detail::price(row, *model, request, efficiency).step.total();
        case Measure::trained_tokens:
            return detail::price(row, *model, request, efficiency).tokens_per_second / devices;
        case Measure::decoded_tokens: {
            request.context = row.prompt + row.generated / 2;
            return detail::price(row, *model, request, efficiency).tokens_per_second;
        }
        case Measure::prompt_tokens: {
            request.context = row.prompt;
            auto const seconds = detail::price(row, *model, request, efficiency).prefill.total();
            return batch * static_cast<double>(row.prompt) / seconds;
        }
        case Measure::first_token_seconds: {
            request.context = row.prompt;
            return detail::price(row, *model, request, efficiency).prefill.total();
        }
        case Measure::generated_tokens: {
            request.context = row.prompt;
            auto const prefill = detail::price(row, *model, request, efficiency).prefill.total();
            request.context = row.prompt + row.generated / 2;
            auto const step = detail::price(row, *model, request, efficiency).step.total();
            auto const tokens = static_cast<double>(row.generated);
            return batch * tokens / (prefill + tokens * step) / devices;
        }
    }
    return -1.0;
}

/// How far off we are: 0.25 is a quarter of the published figure.
[[nodiscard]] inline double error_of(Row const& row, double ours) {
    return ours > row.theirs ? ours / row.theirs - 1.0 : 1.0 - ours / row.theirs;
}

/// Three digits, or all before the point.
[[nodiscard]] inline std::string figure(double value) {
    char text[32];
    std::snprintf(text, sizeof text, value < 1000.0 ? "%.3g" : "%.0f", value);
    return text;
}

/// A row of the documentation's table: ours, theirs, and the difference.
[[nodiscard]] inline std::string markdown_row(Row const& row) {
    auto const ours = answer(row);
    char difference[32];
    std::snprintf(difference, sizeof difference, "%+.0f %%", 100.0 * (ours / row.theirs - 1.0));
    return "| " + row.name + " | " + figure(ours) + " | " + figure(row.theirs) + " " +
           std::string(unit_of(row.measure)) + " | " + difference + " | " + (row.is_held_out ? "held out |" : "|");
}

}  // namespace published
