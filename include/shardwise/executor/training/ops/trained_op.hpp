// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/training_walk.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How operations of one kind are trained; `executor/training/ops/<kind>.hpp` has it for `Op` of `op/<kind>.hpp`:
///
///     static std::int64_t scratch(Operation const&, BackwardBody const&, std::int64_t tokens);     // floats, of one sequence
///     static Result<> forward(TrainingWalk const&, Operation const&, std::size_t number);
///     static Result<> inputs(TrainingWalk const&, Operation const&, std::size_t number, GradientStep const&);
///     static Result<> parameters(TrainingWalk const&, Operation const&, std::size_t number, GradientStep const&);
///
/// This one is of kinds that backward_of refuses.
template <class Op>
struct TrainedOp {
    [[nodiscard]] static std::int64_t scratch(Operation const&, BackwardBody const&, std::int64_t) { return 0; }
    [[nodiscard]] static Result<> forward(TrainingWalk const&, Operation const&, std::size_t) { return refused(); }
    [[nodiscard]] static Result<> inputs(TrainingWalk const&, Operation const&, std::size_t, GradientStep const&) {
        return refused();
    }
    [[nodiscard]] static Result<> parameters(TrainingWalk const&, Operation const&, std::size_t, GradientStep const&) {
        return refused();
    }

private:
    [[nodiscard]] static Error refused() {
        return Error{ErrorCode::unsupported}.in(Op::name).because("has no gradient yet");
    }
};

/// Of operations that need no scratch.
struct NeedsNoScratch {
    [[nodiscard]] static std::int64_t scratch(Operation const&, BackwardBody const&, std::int64_t) { return 0; }
};
/// Of operations without parameters.
struct HasNoParameters {
    [[nodiscard]] static Result<> parameters(TrainingWalk const&, Operation const&, std::size_t, GradientStep const&) {
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
