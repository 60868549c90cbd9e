// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/optimizer.hpp>
#include <shardwise/train/sharded_optimizer.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Whether weights, program and batches are of one training, over some data-parallel ranks and of a rank at some place of a pipeline.
///
/// Errors  invalid_argument
[[nodiscard]] inline Result<> check_training(TrainingProgram const& program, TrainingWeights const& weights,
                                             Batches const& batches, std::int64_t ranks,
                                             TrainingStage const& pipeline) {
    Error bad{ErrorCode::invalid_argument};
    bad.in("training");
    if (&weights.model() != &program.model()) return bad.at("weights").because("are those of another model");
    auto const vocabulary = program.model().config.vocab_size;
    if (batches.vocabulary() > vocabulary)
        return bad.at("vocabulary")
            .because("of the data is larger than the model's")
            .got(batches.vocabulary())
            .at_most(vocabulary);
    if (ranks > batches.options().batch)
        return bad.at("ranks")
            .because("are more than the sequences of a batch, of which each takes at least one")
            .got(ranks)
            .at_most(batches.options().batch)
            .fix("use fewer ranks or a larger batch");
    if (!(program.place().pipeline == pipeline))
        return bad.at("program").because("is that of another stage, or of another table of the pipeline");
    return {};
}

/// What an optimizer changes.
[[nodiscard]] inline List<OptimizedParameter> optimized_parameters(TrainingLayout const& layout,
                                                                   TrainingWeights& weights) {
    List<OptimizedParameter> out;
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        auto const& parameter = layout.parameters()[i];
        out.push_back({parameter.name, weights.values(i), decays_weight(parameter.name, parameter.tensor->shape.rank()),
                       weights.shares().is_shared() ? parameter.elements : 0, weights.halves(i),
                       parameter.whole_elements});
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
