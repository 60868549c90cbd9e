// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/op/product_activations.hpp>
#include <shardwise/op/work.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Refuses to round the activations of a model's products where none of them would: its weights are all in other formats than those
/// that the policy speaks of (has_int8_product, has_bf16_product). `format_of` says how they are held.
///
/// Errors  unsupported; those of `format_of`
[[nodiscard]] inline Result<> check_product_activations(Model const& model, FormatOf const& format_of,
                                                        ProductActivations activations) {
    if (activations == ProductActivations::full) return {};
    for (auto const& block : model.program.blocks()) {
        auto const prefix = block_path(block, 0);
        for (auto const& op : model.program.body(block).operations()) {
            auto const weights = weights_of(op.kind);
            bool const is_product = weights == OpWeights::dense || weights == OpWeights::experts;
            if (!is_product || op.parameters[0].empty()) continue;
            auto const held = format_of(detail::parameter_name(prefix, op.parameters[0], 0));
            if (!held) return held.error();
            if (detail::rounds_activations(held->format, activations)) return {};
        }
    }
    if (activations == ProductActivations::bf16) {
        return Error{ErrorCode::unsupported}
            .in("product activations")
            .at(name_of(activations))
            .because("would change nothing: no weight is held in bf16")
            .fix("load the weights in bf16, or use full");
    }
    return Error{ErrorCode::unsupported}
        .in("product activations")
        .at(name_of(activations))
        .because("would change nothing: no weight is held in a format of whole numbers")
        .fix("pack the weights while they are loaded (int8, int4, Q8_0, ...), or use full");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
