// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/training/training_dropout.hpp>
#include <shardwise/executor/training/training_memory.hpp>
#include <shardwise/executor/training/training_weights.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Errors  shape_mismatch for more than the limits say; invalid_argument for an id that is none of the vocabulary
[[nodiscard]] inline Result<> check_tokens(TensorView<std::int32_t const, 2, Host> tokens, TrainingLimits const& limits,
                                           std::int64_t vocabulary) {
    Error wrong{ErrorCode::shape_mismatch};
    wrong.in("training");
    if (tokens.extent(0) < 1 || tokens.extent(0) > limits.sequences)
        return wrong.at("sequences").got(tokens.extent(0)).between(1, limits.sequences);
    if (tokens.extent(1) < 1 || tokens.extent(1) > limits.context)
        return wrong.at("tokens").got(tokens.extent(1)).between(1, limits.context);
    if (!tokens.is_dense()) return wrong.at("tokens").because("do not lie one after another");
    for (std::int64_t i = 0; i < tokens.elements(); ++i) {
        if (tokens.data()[i] >= 0 && tokens.data()[i] < vocabulary) continue;
        return Error{ErrorCode::invalid_argument}
            .in("training")
            .at("tokens")
            .because("have an id that is none of the vocabulary")
            .got(tokens.data()[i])
            .between(0, vocabulary - 1)
            .fix("check the tokenizer that made the ids");
    }
    return {};
}

/// Errors  invalid_argument for a rate that is none, and for numbers of other sequences than there are
[[nodiscard]] inline Result<> check_dropout(TrainingDropout const& dropout, std::int64_t sequences) {
    bool const is_rate = dropout.rate >= 0.0F && dropout.rate < 1.0F;
    auto const numbers = static_cast<std::int64_t>(dropout.sequences.size());
    if (is_rate && (numbers == sequences || (numbers == 0 && dropout.rate == 0.0F))) return {};
    Error bad{ErrorCode::invalid_argument};
    bad.in("training").at("dropout");
    if (!is_rate) return bad.because("must be at least 0 and below 1");
    return bad.because("needs the number of each sequence in the global batch").got(numbers).expected(sequences);
}

/// Errors  invalid_argument for weights of another model, rank or stage, and for those that are held in another way than layers are made of
[[nodiscard]] inline Result<> check_weights(TrainingWeights const& weights, TrainingProgram const& program,
                                            bool has_layers) {
    auto const& place = weights.layout().place();
    auto const& own = program.place();
    Error bad{ErrorCode::invalid_argument};
    bad.in("training").at("weights");
    if (place.ranks != own.ranks || place.rank != own.rank || place.pipeline != own.pipeline)
        return bad.because("are those of another tensor-parallel rank or stage");
    if (&weights.model() != &program.model()) return bad.because("are those of another model");
    if (weights.storage().is_direct() != has_layers) return {};
    return bad.because(has_layers ? "are whole, where shares are gathered"
                                  : "are shares or bfloat16, which nothing brings into layers");
}

/// Of a sequence among those of a forward pass, each of `length` tokens.
///
/// Errors  invalid_argument, shape_mismatch
[[nodiscard]] inline Result<> check_leaf(std::int64_t sequence, std::int64_t sequences, std::int64_t length,
                                         TensorView<std::int32_t const, 1, Host> targets,
                                         TensorView<float const, 1, Host> losses) {
    if (sequence < 0 || sequence >= sequences)
        return Error{ErrorCode::invalid_argument}
            .in("training")
            .at("sequence")
            .because("is none that the forward pass took")
            .got(sequence)
            .between(0, sequences - 1);
    if (targets.elements() == length && losses.elements() == length) return {};
    return Error{ErrorCode::shape_mismatch}
        .in("training")
        .because("each token needs a target and a loss")
        .got(targets.elements() == length ? losses.elements() : targets.elements())
        .expected(length);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
