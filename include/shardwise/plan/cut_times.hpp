// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/step_cost.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What of a step depends on where its stages are cut.
struct CutTimes {
    double sum = 0.0;
    double slowest = 0.0;
    double reduce = 0.0;
    double update = 0.0;

    [[nodiscard]] bool is_no_worse(CutTimes const& other) const {
        // Sums of the same layers in another order differ in the last bits.
        constexpr double rounding = 1.0 + 1e-13;
        return sum <= other.sum * rounding && slowest <= other.slowest * rounding &&
               reduce <= other.reduce * rounding && update <= other.update * rounding;
    }
    /// With another stage's times.
    [[nodiscard]] CutTimes joined(CutTimes const& other) const {
        auto const larger = [](double a, double b) { return a > b ? a : b; };
        return {sum + other.sum, larger(slowest, other.slowest), larger(reduce, other.reduce),
                larger(update, other.update)};
    }
    /// The same step as step_cost's.
    [[nodiscard]] double seconds(double micro_batches, StepSetting const& setting) const {
        auto const filling = setting.pass == Pass::decode ? kept_full(sum, slowest, micro_batches)
                                                          : filled_once(sum, slowest, micro_batches);
        return filling + reduce + update + setting.efficiency.step_seconds;
    }
};

/// Some consecutive slots as a stage, grown from the last one forwards.
struct GrowingStage {
    double seconds = 0.0;
    double backward = 0.0;
    double output_bytes = 0.0;
    BodyWeights weights{};

    void add(StageCost const& slot, double slot_seconds) {
        seconds += slot_seconds;
        backward += slot.backward_seconds;
        weights += slot.weights;
    }
    [[nodiscard]] StageCost cost() const {
        StageCost cost{.backward_seconds = backward, .output_bytes = output_bytes, .weights = weights};
        cost.terms.compute = seconds;
        return cost;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
