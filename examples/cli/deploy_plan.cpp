// SPDX-License-Identifier: Apache-2.0
#include "deploy_plan.hpp"

#include <shardwise/deploy/check_deploy.hpp>
#include <shardwise/deploy/quant_words.hpp>
#include <shardwise/deploy/take_plan.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/plan/closest_cut.hpp>
#include <shardwise/plan/plan_parallel.hpp>
#include <shardwise/quant/scheme.hpp>

#include "plan_answer.hpp"
#include "requests.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::cli {

namespace {

/// The mildest quantisation of the engine's own with which a plan exists; "" where none helps.
[[nodiscard]] std::string_view quant_that_fits(Engine engine, LoadedModel const& loaded, PlanRequest plan,
                                               Topology const& topology) {
    constexpr std::array<std::string_view, 7> mildest_first{"fp8", "int8", "awq", "nf4", "Q8_0", "Q4_K_M", "Q2_K"};
    if (plan.estimate.quant) return {};
    for (auto const word : mildest_first) {
        auto const scheme = parse_quant_scheme(word);
        if (!scheme || !quant_word(engine, *scheme)) continue;
        plan.estimate.quant = *scheme;
        plan.estimate.dtype = std::nullopt;
        if (has_plan(loaded.model, topology, plan)) return word;
    }
    return {};
}

/// True for quantisations that engines read and do not make.
[[nodiscard]] bool is_read(std::string_view word) {
    return word == "awq" || word.front() == 'Q';
}

/// The plan's error with the changes that would make it fit, those that the engine takes.
[[nodiscard]] Error with_fix(Error error, LoadedModel const& loaded, PlanRequest const& plan, Topology const& topology,
                             Engine engine) {
    if (error.code() != ErrorCode::out_of_memory) return in_flags(error);
    PlanAnswer answer{.loaded = loaded, .request = plan, .topology = topology};
    std::string advice;
    auto const add = [&advice](std::string const& text) {
        auto const longer = advice + (advice.empty() ? "" : ", or ") + text;
        if (longer.size() <= 190) advice = longer;
    };
    if (auto const word = quant_that_fits(engine, loaded, plan, topology); !word.empty())
        add((is_read(word) ? "give a quantised checkpoint: --quant " : "quantise the weights: --quant ") + std::string(word));
    for (auto const& fix : find_plan_fixes(answer)) {
        // Words of `plan` that are none here.
        if (fix.kind == "context" || (fix.kind == "devices" && engine != Engine::tei)) add(fix.text);
    }
    if (advice.empty()) advice = "name larger devices or a smaller model";
    return error.fix(advice);
}

/// Memory on the processor alone.
[[nodiscard]] Result<> plan_processor(LoadedModel const& loaded, EstimateRequest estimate, DeployDevices const& found,
                                      DeployRequest& request) {
    estimate.device = DeviceClass::cpu;
    auto const needed = estimate_memory(loaded.model, estimate);
    if (!needed) return in_flags(needed.error());
    request.memory.total = needed->total;
    for (auto const& device : found.topology.devices) {
        if (device.kind != DeviceKind::cpu) continue;
        request.memory.device = device.memory;
        if (device.available() >= needed->total) return {};
        return Error{ErrorCode::out_of_memory}
            .in("the processor's memory")
            .needs(needed->total)
            .has(device.available())
            .fix("lower --context or --sequences, or name a GPU");
    }
    return {};
}

}  // namespace

Result<> plan_deployment(LoadedModel const& loaded, EstimateRequest const& estimate, DeployDevices const& found,
                         DeployRequest& request) {
    if (found.devices.empty()) return plan_processor(loaded, estimate, found, request);
    auto const count = request.device_count();
    auto const& config = loaded.model.config;
    PlanRequest asked;
    asked.estimate = estimate;
    asked.is_even = true;
    asked.pins.dp = 1;
    asked.pins.ep = 1;
    if (!has_pipeline(request.engine)) asked.pins.pp = 1;
    if (request.engine == Engine::llama_server) {
        asked.pins.tp = 1;
        asked.pins.pp = count;
    }
    auto plan = plan_parallel(loaded.model, found.topology, asked);
    if (!plan) return with_fix(plan.error(), loaded, asked, found.topology, request.engine);
    if (plan->degrees.ranks() != count) {
        // All that were asked for are used: tensor parallelism gets those of a node, and a stage of the pipeline is a node.
        auto const nodes = request.node_count();
        if (auto const checked = check_heads(config, count / nodes); !checked) return checked;
        asked.pins.tp = count / nodes;
        asked.pins.pp = nodes;
        plan = plan_parallel(loaded.model, found.topology, asked);
        if (!plan) return with_fix(plan.error(), loaded, asked, found.topology, request.engine);
    }
    take_plan(*plan, found.topology, request, found.is_own);
    return {};
}

}  // namespace shardwise::cli
