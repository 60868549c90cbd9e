// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a dynamic loss scaler does after a step.
///
/// Source  torch.amp.GradScaler's defaults
struct LossScalerOptions {
    double initial = 65536.0;
    double growth = 2.0;
    double backoff = 0.5;
    /// Steps in a row without an infinite or undefined gradient before the scale grows.
    std::int64_t interval = 2000;
};

/// The scale that a loss is multiplied with, so that gradients in half precision do not vanish. A value: what a checkpoint
/// holds are its two numbers.
class LossScaler {
public:
    /// Errors  invalid_argument
    [[nodiscard]] static constexpr Result<LossScaler> create(LossScalerOptions const& options = {}) {
        Error bad{ErrorCode::invalid_argument};
        bad.in("loss scaler");
        if (!is_scale(options.initial)) return bad.at("initial").because("is no positive float");
        if (!(options.growth > 1.0 && options.growth < 1e30)) return bad.at("growth").because("is not above 1");
        if (!(options.backoff > 0.0 && options.backoff < 1.0))
            return bad.at("backoff").because("is not between 0 and 1");
        if (options.interval < 1)
            return bad.at("interval").because("is no number of steps").got(options.interval).at_least(1);
        return LossScaler(options, options.initial, 0);
    }
    /// One that goes on from a checkpoint.
    ///
    /// Errors  invalid_argument
    [[nodiscard]] static constexpr Result<LossScaler> resume(LossScalerOptions const& options, double scale,
                                                             std::int64_t good_steps) {
        auto made = create(options);
        if (!made) return made;
        Error bad{ErrorCode::invalid_argument};
        bad.in("loss scaler");
        if (!is_scale(scale)) return bad.at("scale").because("is no positive float");
        if (good_steps < 0 || good_steps >= options.interval)
            return bad.at("good_steps")
                .because("is beyond the interval")
                .got(good_steps)
                .between(0, options.interval - 1);
        return LossScaler(options, scale, good_steps);
    }

    [[nodiscard]] constexpr double scale() const { return scale_; }
    /// Steps in a row without a bad gradient since the scale changed.
    [[nodiscard]] constexpr std::int64_t good_steps() const { return good_steps_; }

    /// Says how a step went: whether any rank had an infinite or undefined gradient (`GradientNorm::is_finite` of all ranks
    /// together), so that all ranks change alike.
    constexpr void update(bool has_bad_gradients) {
        if (has_bad_gradients) {
            // At the smallest normal float it stays: a scale of 0 would hide everything.
            if (auto const smaller = scale_ * options_.backoff; is_scale(smaller)) scale_ = smaller;
            good_steps_ = 0;
            return;
        }
        if (++good_steps_ < options_.interval) return;
        if (auto const larger = scale_ * options_.growth; is_scale(larger)) scale_ = larger;
        good_steps_ = 0;
    }

private:
    constexpr LossScaler(LossScalerOptions const& options, double scale, std::int64_t good_steps)
        : options_(options), scale_(scale), good_steps_(good_steps) {}

    /// A normal float: losses are floats, and an infinite scale would end the run.
    [[nodiscard]] static constexpr bool is_scale(double scale) {
        return scale >= 1.1754943508222875e-38 && scale <= 3.4028234663852886e38;
    }

    LossScalerOptions options_;
    double scale_;
    std::int64_t good_steps_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
