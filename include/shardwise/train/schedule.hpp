// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/train/detail/cosine.hpp>
#include <shardwise/train/detail/rounded.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How the learning rate goes after the warm-up.
enum class ScheduleKind : std::uint8_t {
    constant,
    linear,        // falls in a line to the floor at the last step
    cosine,        // half a cosine to the floor
    wsd,           // warm-up, stable, decay: stays, and falls by half a cosine in the last steps
    inverse_sqrt,  // falls as 1 / sqrt(step)
};

inline constexpr std::array<std::string_view, 5> schedule_names{"constant", "linear", "cosine", "wsd", "inverse_sqrt"};

[[nodiscard]] constexpr std::string_view name_of(ScheduleKind kind) {
    return schedule_names[static_cast<std::size_t>(kind)];
}

/// Errors  unknown_name with the nearest
[[nodiscard]] inline Result<ScheduleKind> parse_schedule(std::string_view name) {
    ClosestName closest(name);
    for (std::size_t i = 0; i < schedule_names.size(); ++i) {
        if (schedule_names[i] == name) return static_cast<ScheduleKind>(i);
        closest.offer(schedule_names[i]);
    }
    return Error{ErrorCode::unknown_name}
        .in(name)
        .because("is no schedule of the learning rate")
        .fix(closest.best().empty() ? std::string_view("use constant, linear, cosine, wsd or inverse_sqrt")
                                    : did_you_mean(closest.best()).view());
}

/// The learning rate of every step, a function of the step alone: no state has to be saved. Of the C library it takes the square
/// root only, which IEEE 754 defines to the last bit; the cosine is our own (train/detail/cosine.hpp). So all ranks and machines
/// compute the same bits.
///
/// Units   steps; the floor is a share of the learning rate
/// Source  transformers 4.57 optimization.py: the same factors, with a floor for linear and inverse_sqrt, too; after the last step
///         the rate stays where it is
struct Schedule {
    ScheduleKind kind = ScheduleKind::cosine;
    double learning_rate = 3e-4;
    /// Steps in which the rate rises in a line from 0, which it is at step 0.
    std::int64_t warm_up = 0;
    /// All steps, the warm-up included.
    std::int64_t total = 0;
    /// Of wsd: the last steps, in which the rate falls.
    std::int64_t decay = 0;
    /// The rate never falls below floor * learning_rate after the warm-up.
    double floor = 0.0;

    /// Errors  invalid_argument
    [[nodiscard]] constexpr Result<> check() const {
        Error bad{ErrorCode::invalid_argument};
        bad.in("schedule");
        if (!(learning_rate >= 0.0 && learning_rate < 1e30))
            return bad.at("learning_rate").because("is no number from 0 on");
        if (!(floor >= 0.0 && floor <= 1.0)) return bad.at("floor").because("is no share from 0 to 1");
        if (warm_up < 0) return bad.at("warm_up").because("is negative").got(warm_up).at_least(0);
        if (total < 0) return bad.at("total").because("is negative").got(total).at_least(0);
        bool const has_end = kind != ScheduleKind::constant && kind != ScheduleKind::inverse_sqrt;
        if (has_end && total < warm_up)
            return bad.at("warm_up").because("takes longer than the whole run").got(warm_up).at_most(total);
        if (kind != ScheduleKind::wsd && decay != 0)
            return bad.at("decay").because("is of the schedule wsd alone").got(decay).expected(0);
        if (kind == ScheduleKind::wsd && (decay < 0 || decay > total - warm_up))
            return bad.at("decay").because("does not fit after the warm-up").got(decay).between(0, total - warm_up);
        return {};
    }

    /// The share of the learning rate at a step, counted from 0: the step that is the first to change weights.
    [[nodiscard]] double factor(std::int64_t step) const {
        auto const ratio = [](std::int64_t a, std::int64_t b) {
            return std::min(1.0, static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(b, 1)));
        };
        auto const above_floor = [this](double share) { return detail::rounded(share * (1.0 - floor)) + floor; };
        auto const half_cosine = [&](double progress) {
            return above_floor(0.5 * (1.0 + detail::cosine_of_half_turns(progress)));
        };
        if (step < warm_up) return ratio(std::max<std::int64_t>(step, 0), warm_up);
        switch (kind) {
            case ScheduleKind::constant:
                return 1.0;
            case ScheduleKind::linear:
                return above_floor(ratio(std::max<std::int64_t>(total - step, 0), total - warm_up));
            case ScheduleKind::cosine:
                return half_cosine(ratio(step - warm_up, total - warm_up));
            case ScheduleKind::wsd:
                return step < total - decay ? 1.0 : half_cosine(ratio(step - (total - decay), decay));
            case ScheduleKind::inverse_sqrt: {
                // Without a warm-up there is no step to measure by.
                auto const scale = warm_up > 0 ? warm_up : unwarmed_scale;
                auto const past = static_cast<double>(step - warm_up + scale) / static_cast<double>(scale);
                return std::max(floor, 1.0 / std::sqrt(past));
            }
        }
        return 1.0;
    }
    [[nodiscard]] double at(std::int64_t step) const { return learning_rate * factor(step); }

private:
    /// Source  transformers 4.57, get_inverse_sqrt_schedule (timescale)
    static constexpr std::int64_t unwarmed_scale = 10'000;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
