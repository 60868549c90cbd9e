// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/model/architecture.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What an executor with these limits puts out: what the last block makes that it computes.
[[nodiscard]] inline ExecutorOutput output_of(Model const& model, ExecutorLimits const& limits) {
    ExecutorOutput output;
    for (auto const& block : model.program.blocks()) {
        if (block.role == ModuleRole::head && !limits.has_head) break;
        auto const& body = model.program.body(block);
        auto const& last = body.values()[static_cast<std::size_t>(body.operations().back().output)];
        output = {last.rows, last.width, last.is_fp32, last.is_fp32 ? Dtype::f32 : limits.activations};
    }
    return output;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
