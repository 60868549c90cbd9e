// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/pipeline_stage.hpp>
#include <shardwise/executor/routes.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/session/run_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Checks what can be said of a run before any rank starts; the blocks of each stage.
///
/// Errors  invalid_argument for impossible ranks, with those that are legal
[[nodiscard]] inline Result<std::vector<StageBlocks>> plan_stages(Model const& model, RunOptions const& options) {
    Error refused{ErrorCode::invalid_argument};
    if (options.tp < 1) return refused.in("tp").because("is less than one rank").got(options.tp).at_least(1);
    if (options.pp < 1) return refused.in("pp").because("is less than one stage").got(options.pp).at_least(1);
    if (options.pp > 1 && options.cache_tokens > 0) {
        // Stages whose layers see unequally far would admit sequences at different steps.
        return Error{ErrorCode::unsupported}
            .in("cache_tokens")
            .because("cannot be shared by the sequences of a pipeline yet")
            .fix("leave it 0: each sequence then has its whole context");
    }
    if (auto const checked = check_expert_place({options.ep, 0}, model.config); !checked) return checked.error();
    auto begins = options.stage_begins;
    // Checks the degrees too.
    auto const even = even_stages(model, options.tp, begins.empty() ? options.pp : 1);
    if (!even) return even.error();
    if (begins.empty()) begins = *even;
    bool is_legal = begins.size() == static_cast<std::size_t>(options.pp) + 1 && begins.front() == 0 &&
                    begins.back() == even->back() && std::is_sorted(begins.begin(), begins.end());
    auto stages = is_legal ? blocks_of_stages(model.program, begins, options.layer_homes) : std::vector<StageBlocks>{};
    for (auto const& stage : stages) is_legal = is_legal && stage.begin < stage.end;
    if (is_legal) return stages;
    return refused.in("stages")
        .because("are not one run of consecutive layers after another, one for each stage")
        .got(static_cast<std::int64_t>(begins.size()) - 1)
        .expected(options.pp);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
