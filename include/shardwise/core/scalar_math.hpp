// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/unfused.hpp>
#include <shardwise/core/version.hpp>

#include <bit>
#include <cstdint>
#include <limits>

// Functions that the C library has, too. Its own differ between processors in the last place, at one instruction set: it picks the
// body when the program starts. These give the same bits wherever the same program runs.

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

SHARDWISE_UNFUSED_BEGIN

/// 2^power, for normal results.
[[nodiscard]] inline double power_of_two_double(std::int64_t power) {
    return std::bit_cast<double>((power + 1023) << 52);
}

/// The nearest whole number of less than 2^51.
[[nodiscard]] inline double nearest_whole(double x) {
    constexpr double shift = 0x1.8p52;
    return (x + shift) - shift;
}

/// exp(x), within some units in the last place of a double; zero below -700, where no float has a digit left.
///
/// Source  the series of exp, to its 13th power on half an ln 2: 4e-18 is left
[[nodiscard]] inline double exponential_of(double x) {
    if (x < -700.0) return 0.0;
    if (x > 709.0) return std::numeric_limits<double>::infinity();
    if (!(x <= 709.0)) return x;
    auto const power = nearest_whole(x * 1.4426950408889634);
    // ln 2 in two parts, the first of so few digits that its product with a power is exact.
    auto const rest = (x - power * 0x1.62e42fefap-1) - power * 0x1.cf79abc9e3b3ap-40;
    double sum = 1.0;
    for (int i = 13; i > 0; --i) sum = 1.0 + sum * rest / static_cast<double>(i);
    return sum * power_of_two_double(static_cast<std::int64_t>(power));
}

/// log(x), within some units in the last place of a double; of a negative number NaN.
///
/// Source  log m = 2 artanh((m - 1) / (m + 1)) for m within a factor of sqrt(2) of 1, by its series: 3e-17 is left
[[nodiscard]] inline double logarithm_of(double x) {
    if (x == 0.0) return -std::numeric_limits<double>::infinity();
    if (!(x > 0.0)) return std::numeric_limits<double>::quiet_NaN();
    if (x > std::numeric_limits<double>::max()) return x;
    std::int64_t power = 0;
    if (x < std::numeric_limits<double>::min()) {
        x *= 0x1p54;
        power = -54;
    }
    auto const bits = std::bit_cast<std::int64_t>(x);
    power += (bits >> 52) - 1023;
    auto part = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | (std::int64_t{1023} << 52));
    if (part > 1.4142135623730951) {
        part *= 0.5;
        ++power;
    }
    auto const ratio = (part - 1.0) / (part + 1.0);
    auto const square = ratio * ratio;
    double sum = 0.0;
    for (int i = 21; i > 0; i -= 2) sum = sum * square + 1.0 / static_cast<double>(i);
    auto const whole = static_cast<double>(power);
    return whole * 0x1.62e42fefap-1 + (2.0 * ratio * sum + whole * 0x1.cf79abc9e3b3ap-40);
}

/// base^exponent of a positive base, within some units in the last place of a double for each unit of the result's logarithm.
[[nodiscard]] inline double power_of(double base, double exponent) {
    return exponential_of(exponent * logarithm_of(base));
}

struct SineCosine {
    double sine = 0.0;
    double cosine = 0.0;
};

/// Sine and cosine of an angle below 2^31 quarter turns, each within 1e-13.
///
/// Source  Cody and Waite's reduction, with pi/2 in parts of 22 bits, whose products with a whole number are exact; the series on
///         an eighth of a turn, to the 15th and 16th power: 5e-17 is left
[[nodiscard]] inline SineCosine sine_cosine_of(double angle) {
    auto const turns = nearest_whole(angle * 0.63661977236758134);
    auto rest = angle - turns * 0x1.921fbp0;
    rest -= turns * 0x1.5110bp-22;
    rest -= turns * 0x1.18469898cc517p-44;
    auto const square = rest * rest;
    double sine = 1.0;
    for (int i = 15; i > 1; i -= 2) sine = 1.0 - sine * square / static_cast<double>(i * (i - 1));
    sine *= rest;
    double cosine = 1.0;
    for (int i = 16; i > 0; i -= 2) cosine = 1.0 - cosine * square / static_cast<double>(i * (i - 1));
    auto const quarter = static_cast<std::int64_t>(turns) & 3;
    auto const swapped = (quarter & 1) != 0 ? SineCosine{cosine, sine} : SineCosine{sine, cosine};
    return {(quarter & 2) != 0 ? -swapped.sine : swapped.sine,
            quarter == 1 || quarter == 2 ? -swapped.cosine : swapped.cosine};
}

SHARDWISE_UNFUSED_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
