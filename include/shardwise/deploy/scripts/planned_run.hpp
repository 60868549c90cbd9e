// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/plan/saved_plan.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The words of `shardwise run` that run a model as a plan says; prompt and sampling are to follow.
///
/// Keys and values that were planned in 16 bits are kept in bf16, whichever 16 bits they were.
///
/// Errors  unsupported, with what to do, where `run` does not do what was planned: training, data parallelism, presets
///         without files, keys and values of 8-bit floats, pipelines of experts over several nodes
[[nodiscard]] inline Result<std::vector<std::string>> planned_run(SavedPlan const& plan) {
    auto const refuse = [](std::string_view why) {
        return Error{ErrorCode::unsupported}.in("shardwise run").because(why).fix(
            "give the command that is to run: -- COMMAND");
    };
    if (plan.is_training()) return refuse("does not train, and the plan is one for training");
    auto const& degrees = plan.degrees;
    if (degrees.dp > 1) return refuse("has no data parallelism, and the plan has dp " + std::to_string(degrees.dp));
    if (plan.source.empty())
        return refuse("needs files of weights, and the plan names none: its model is " + plan.model.substr(0, 60));
    bool const has_nodes = !plan.ranks.empty() && plan.ranks.front().node != plan.ranks.back().node;
    if (degrees.ep > 1 && degrees.pp > 1 && has_nodes)
        return refuse("numbers stages before groups of experts, and the plan's nodes stand the other way round");
    std::vector<std::string> words{"shardwise", "run", plan.source};
    // A word that starts with a dash would be a flag.
    if (plan.source.front() == '-') words.back().insert(0, "./");
    auto const add = [&words](std::string_view flag, std::string value) {
        words.emplace_back(flag);
        words.push_back(std::move(value));
    };
    add("--tp", std::to_string(degrees.tp));
    if (degrees.pp > 1) add("--pp", std::to_string(degrees.pp));
    if (degrees.ep > 1) add("--ep", std::to_string(degrees.ep));
    if (!plan.dtype.empty()) add("--dtype", plan.dtype);
    if (!plan.quant.empty()) add("--quant", plan.quant);
    if (plan.kv_dtype == "bf16" || plan.kv_dtype == "fp16")
        add("--kv-dtype", "bf16");
    else if (plan.kv_dtype == "int8" || plan.kv_dtype == "fp32")
        add("--kv-dtype", plan.kv_dtype);
    else if (!plan.kv_dtype.empty())
        return refuse("keeps keys and values in fp32, bf16 or int8, and the plan in " + plan.kv_dtype.substr(0, 20));
    if (plan.prefill_chunk && *plan.prefill_chunk != default_prefill_chunk)
        add("--prefill-chunk", std::to_string(*plan.prefill_chunk));
    return words;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
