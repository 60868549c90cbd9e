// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/train/loss_scaler.hpp>
#include <shardwise/train/train_options.hpp>

#include <optional>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What losses of a run are multiplied with: the scaler's number in fp16, 1 in other precisions. A power of two, so that it changes no
/// bit of what is in range.
class LossScale {
public:
    explicit LossScale(Dtype precision) {
        if (precision == Dtype::f16) scaler_ = *LossScaler::create();
    }

    [[nodiscard]] double factor() const { return scaler_ ? scaler_->scale() : 1.0; }
    /// After a step: whether any rank's gradients were no numbers.
    void update(bool has_bad_gradients) {
        if (scaler_) scaler_->update(has_bad_gradients);
    }
    /// The position with the scaler's two numbers.
    [[nodiscard]] TrainerPosition put(TrainerPosition position) const {
        if (!scaler_) return position;
        position.loss_scale = scaler_->scale();
        position.good_steps = scaler_->good_steps();
        return position;
    }
    /// Goes on from there.
    ///
    /// Errors  invalid_argument for a scaler that is none, or where the run has none
    [[nodiscard]] Result<> restore(TrainerPosition const& position) {
        if (!scaler_ && position.loss_scale == 0.0) return {};
        if (!scaler_)
            return Error{ErrorCode::invalid_argument}
                .in("training")
                .at("loss_scale")
                .because("is of fp16, and this run is in another precision");
        auto const resumed = LossScaler::resume({}, position.loss_scale, position.good_steps);
        if (!resumed) return resumed.error();
        scaler_ = *resumed;
        return {};
    }

private:
    std::optional<LossScaler> scaler_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
