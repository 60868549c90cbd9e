// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/training/training_layout.hpp>
#include <shardwise/train/optimizer.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Whether tensor-parallel ranks cut the parameters of a layout where the optimizer's state may be cut: what lies together in the whole
/// parameter begins with a block there and on its rank, and ends with one. What every rank of them has is looked at, so that all say the same.
///
/// Errors  unsupported with the first parameter that is cut within a block
template <OptimizerRule Rule>
[[nodiscard]] Result<> check_cut(Rule const& rule, TrainingLayout const& layout) {
    for (auto const& parameter : layout.parameters()) {
        if (parameter.cut.is_whole()) continue;
        std::int64_t block = Rule::needs_whole_matrix ? parameter.whole_elements : 1;
        for (auto const& array : rule.state(parameter.whole_elements, {0, parameter.whole_elements}))
            block = std::max(block, array.block);
        if (block == 1) continue;
        std::int64_t wrong = 0;
        auto const look = [&](std::int64_t whole, std::int64_t own, std::int64_t count) {
            auto const end = whole + count;
            for (auto const at : {whole, own, end == parameter.whole_elements ? 0 : end}) {
                if (wrong == 0 && at % block != 0) wrong = at;
            }
        };
        for (auto const* const pieces : {&parameter.cut.own, &parameter.cut.counted}) {
            for (auto const& piece : *pieces) piece.for_each_run(parameter.stride, look);
        }
        if (wrong == 0) continue;
        return Error{ErrorCode::unsupported}
            .in(Rule::name)
            .at(parameter.name)
            .because("is cut by " + std::to_string(layout.place().ranks) +
                     " tensor-parallel ranks within a block of the optimizer's state")
            .got(wrong)
            .multiple_of(block)
            .fix("use a tensor-parallel degree that shares whole blocks, data-parallel ranks, or adamw or sgd");
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
