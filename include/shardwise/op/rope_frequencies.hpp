// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/scalar_math.hpp>
#include <shardwise/op/rope_parameters.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What scaled positions need to know beside their parameters.
///
/// Units  elements of a head; tokens
struct RopeExtent {
    /// Elements of a head that turn: head_dim, or a part of it.
    std::int64_t rotary = 0;
    /// `max_position_embeddings`.
    std::int64_t max_positions = 0;
    /// The longest sequence so far: dynamic and longrope choose by it. 0: as at the start.
    std::int64_t sequence = 0;
    /// longrope's divisors for each pair, up to the original context and beyond it.
    std::span<double const> short_factors{};
    std::span<double const> long_factors{};
};

/// How fast each pair of a head turns, and what multiplies cosine and sine.
struct RopeFrequencies {
    List<float> per_pair;
    float attention_factor = 1.0F;
};

/// Elements of a head that turn.
[[nodiscard]] constexpr std::int64_t rotary_elements(RopeParameters const& rope, std::int64_t head_dim) {
    return static_cast<std::int64_t>(static_cast<double>(head_dim) * rope.partial_rotary_factor);
}

/// yarn's growth of the scores with the stretch of the context: 0.1 mscale ln(factor) + 1. deepseek multiplies its score
/// scale by the square of it (with mscale_all_dim).
///
/// Source  Peng et al., YaRN, 2023, section 3.4
[[nodiscard]] inline double yarn_magnitude(double factor, double mscale = 1.0) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * detail::logarithm_of(factor) + 1.0;
}

namespace detail {

inline constexpr double two_pi = 6.283185307179586;

/// theta^(2 i / rotary) of each pair; exponent and result are rounded to float, as torch does.
[[nodiscard]] inline List<float> rope_periods(double theta, std::int64_t rotary) {
    List<float> periods(static_cast<std::size_t>(rotary / 2));
    for (std::size_t i = 0; i < periods.size(); ++i) {
        auto const exponent = static_cast<float>(2 * i) / static_cast<float>(rotary);
        periods[i] = static_cast<float>(power_of(theta, static_cast<double>(exponent)));
    }
    return periods;
}

/// Long waves turn slower by the factor, short ones do not, between them, if there is a between (Llama 4 Scout has none), it is
/// blended.
inline void stretch_llama3(List<float>& frequencies, RopeParameters const& rope) {
    auto const context = static_cast<double>(rope.original_max_positions);
    auto const long_wave = static_cast<float>(context / rope.low_frequency_factor);
    auto const short_wave = static_cast<float>(context / rope.high_frequency_factor);
    auto const factor = static_cast<float>(rope.factor);
    for (auto& frequency : frequencies) {
        auto const wave = static_cast<float>(two_pi) / frequency;
        if (wave > long_wave) {
            frequency /= factor;
        } else if (!(wave < short_wave) && long_wave > short_wave) {
            auto const blend = (static_cast<float>(context) / wave - static_cast<float>(rope.low_frequency_factor)) /
                               static_cast<float>(rope.high_frequency_factor - rope.low_frequency_factor);
            frequency = (1.0F - blend) * frequency / factor + blend * frequency;
        }
    }
}

/// Pairs that turn more than beta_fast times in the original context keep their speed, those below beta_slow are slowed
/// down by the factor, between them it is blended.
inline void stretch_yarn(List<float>& frequencies, List<float> const& periods, RopeParameters const& rope,
                         RopeExtent const& extent) {
    auto const context =
        static_cast<double>(rope.original_max_positions > 0 ? rope.original_max_positions : extent.max_positions);
    auto const rotary = static_cast<double>(extent.rotary);
    auto const pair_of = [&](double turns) {
        return rotary * logarithm_of(context / (turns * two_pi)) / (2.0 * logarithm_of(rope.theta));
    };
    auto low = pair_of(rope.beta_fast == 0.0 ? 32.0 : rope.beta_fast);
    auto high = pair_of(rope.beta_slow == 0.0 ? 1.0 : rope.beta_slow);
    if (rope.truncates) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, rotary - 1.0);
    if (low == high) high += 0.001;
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
        auto const ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
        auto const kept = 1.0F - std::clamp(ramp, 0.0F, 1.0F);
        auto const slowed = 1.0F / (static_cast<float>(rope.factor) * periods[i]);
        frequencies[i] = slowed * (1.0F - kept) + frequencies[i] * kept;
    }
}

}  // namespace detail

/// The frequency of each pair, by the method of `rope.kind`. Sliding layers of gemma3 pass parameters of kind `standard` with
/// local_theta as theta.
///
/// Units   radians per token
/// Errors  invalid_argument for an odd or negative number of elements, for parameters outside their range, and where longrope
///         lacks its factors; unsupported for a method that is not known
/// Source  transformers 4.57 modeling_rope_utils.py, in its order of roundings; of longrope's `factor` transformers 5
[[nodiscard]] inline Result<RopeFrequencies> rope_frequencies(RopeParameters const& rope, RopeExtent const& extent) {
    auto const refuse = [](std::string_view place, std::string_view reason) {
        return Error{ErrorCode::invalid_argument}.in("rope").at(place).because(reason);
    };
    if (extent.rotary < 0 || extent.rotary % 2 != 0) {
        return refuse("rotary", "the elements that turn are no pairs").got(extent.rotary);
    }
    if (!(rope.theta > 0.0)) return refuse("theta", "must be greater than 0");
    if (rope.kind == RopeKind::unknown) {
        return Error{ErrorCode::unsupported}
            .in("rope")
            .at("rope_type")
            .because("is none of default, linear, dynamic, llama3, yarn, longrope")
            .fix("results would be wrong with any of them: run another checkpoint");
    }
    bool const is_scaled = rope.kind != RopeKind::standard && rope.kind != RopeKind::longrope;
    if (is_scaled && !(rope.factor > 0.0)) return refuse("factor", "must be greater than 0");
    bool const has_context = extent.max_positions > 0 || rope.original_max_positions > 0;

    RopeFrequencies result;
    auto theta = rope.theta;
    if (rope.kind == RopeKind::dynamic) {
        if (extent.max_positions < 1) return refuse("max_positions", "must be at least 1").got(extent.max_positions);
        if (extent.rotary < 4) return refuse("rotary", "dynamic scaling needs two pairs").got(extent.rotary);
        auto const longest = static_cast<double>(std::max(extent.sequence, extent.max_positions));
        auto const rotary = static_cast<double>(extent.rotary);
        auto const stretch = rope.factor * longest / static_cast<double>(extent.max_positions) - (rope.factor - 1.0);
        theta *= detail::power_of(rope.has_alpha ? rope.alpha : stretch, rotary / (rotary - 2.0));
    }
    auto const periods = detail::rope_periods(theta, extent.rotary);
    for (auto const period : periods) result.per_pair.push_back(1.0F / period);

    switch (rope.kind) {
        case RopeKind::standard:
        case RopeKind::dynamic:
        case RopeKind::unknown:
            break;
        case RopeKind::linear:
            for (auto& frequency : result.per_pair) frequency /= static_cast<float>(rope.factor);
            break;
        case RopeKind::llama3:
            if (rope.original_max_positions < 1) return refuse("original_max_positions", "must be at least 1");
            if (!(rope.low_frequency_factor > 0.0) || !(rope.high_frequency_factor >= rope.low_frequency_factor)) {
                return refuse("high_frequency_factor",
                              "must be at least low_frequency_factor, and both greater than 0");
            }
            detail::stretch_llama3(result.per_pair, rope);
            break;
        case RopeKind::yarn: {
            if (!has_context) return refuse("max_positions", "must be at least 1").got(extent.max_positions);
            if (rope.theta == 1.0) return refuse("theta", "must differ from 1: all pairs would turn alike");
            detail::stretch_yarn(result.per_pair, periods, rope, extent);
            auto factor = rope.attention_factor;
            if (factor == 0.0 && rope.mscale != 0.0 && rope.mscale_all_dim != 0.0) {
                factor = yarn_magnitude(rope.factor, rope.mscale) / yarn_magnitude(rope.factor, rope.mscale_all_dim);
            } else if (factor == 0.0) {
                factor = yarn_magnitude(rope.factor);
            }
            result.attention_factor = static_cast<float>(factor);
            break;
        }
        case RopeKind::longrope: {
            if (!has_context) return refuse("max_positions", "must be at least 1").got(extent.max_positions);
            auto const original = rope.original_max_positions > 0 ? rope.original_max_positions : extent.max_positions;
            auto const stretch = rope.has_factor
                                     ? rope.factor
                                     : static_cast<double>(extent.max_positions) / static_cast<double>(original);
            auto const divisors = extent.sequence > original ? extent.long_factors : extent.short_factors;
            if (divisors.size() != periods.size()) {
                return refuse(extent.sequence > original ? "long_factor" : "short_factor", "needs a divisor per pair")
                    .got(static_cast<std::int64_t>(divisors.size()))
                    .expected(static_cast<std::int64_t>(periods.size()));
            }
            for (std::size_t i = 0; i < divisors.size(); ++i) {
                result.per_pair[i] = 1.0F / (static_cast<float>(divisors[i]) * periods[i]);
            }
            if (rope.attention_factor != 0.0) {
                result.attention_factor = static_cast<float>(rope.attention_factor);
            } else if (stretch > 1.0) {
                result.attention_factor = static_cast<float>(std::sqrt(
                    1.0 + detail::logarithm_of(stretch) / detail::logarithm_of(static_cast<double>(original))));
            }
            break;
        }
    }
    return result;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
