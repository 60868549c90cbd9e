// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/core/log.hpp>
#include <shardwise/executor/pipeline_stage.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/session/run_options.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Where a block's weights lie, and who decided so.
[[nodiscard]] inline std::string_view home_and_reason(LayerHome home, bool is_placed, std::int32_t stages) {
    switch (home) {
        case LayerHome::resident:
            if (is_placed) return "held where it computes: the placement gives its stage this device";
            return stages > 1 ? "held where it computes: stages are of even weight"
                              : "held where it computes: there is one stage";
        case LayerHome::cpu:
            return "kept on the cpu and fetched for every step: the placement says so";
        case LayerHome::disk:
            return "kept on disk and fetched for every step: the placement says so";
    }
    return "unknown";
}

/// Says which share of the model a rank has and where each of its blocks lies, with the reason.
inline void log_layout(Model const& model, RunOptions const& options, StageBlocks const& blocks, std::int32_t rank) {
    auto const& log = options.log;
    if (!log.hears(LogLevel::debug)) return;
    auto const in_team = rank % (options.tp * options.pp);
    auto const part = [](std::int32_t number, std::int32_t all) {
        return std::to_string(number) + " of " + std::to_string(all);
    };
    log(LogLevel::debug, rank,
        std::string(options.devices.empty() ? "computes on the host's cores" : "computes on a device") +
            " as tensor-parallel rank " + part(in_team % options.tp, options.tp) + ", stage " +
            part(in_team / options.tp, options.pp) + ", expert-parallel group " +
            part(rank / (options.tp * options.pp), options.ep));
    bool const is_placed = !options.stage_begins.empty();
    std::int64_t number = 0;
    for (auto const& block : model.program.blocks()) {
        for (std::int32_t i = 0; i < block.count; ++i, ++number) {
            if (!blocks.has(number)) continue;
            auto name = block_path(block, i);
            if (options.tp > 1) name += ", its " + part(in_team % options.tp, options.tp);
            log(LogLevel::debug, rank,
                name + ": " + std::string(home_and_reason(blocks.home(number), is_placed, options.pp)));
        }
    }
}

/// Says what a rank holds once it is loaded.
inline void log_loaded(RunOptions const& options, RunMemory const& memory, double seconds, std::int32_t rank) {
    if (!options.log.hears(LogLevel::info)) return;
    options.log(LogLevel::info, rank,
                "loaded in " + std::to_string(seconds) + " s: weights " + to_text(memory.weights) + ", cache " +
                    to_text(memory.cache) + ", activations " + to_text(memory.activations) + "; predicted " +
                    to_text(memory.predicted) + " in all");
}

/// Says what was generated, in the words of a report.
inline void log_generated(RunOptions const& options, RunReport const& report, std::int32_t rank) {
    if (!options.log.hears(LogLevel::info)) return;
    options.log(LogLevel::info, rank,
                "computed " + std::to_string(report.prompt_tokens) + " tokens of prompts in " +
                    std::to_string(report.prefill_seconds) + " s and generated " +
                    std::to_string(report.decode_tokens) + " after the first in " +
                    std::to_string(report.decode_seconds) + " s");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
