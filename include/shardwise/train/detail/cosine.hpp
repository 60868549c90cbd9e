// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/detail/rounded.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The Taylor series of cosine (first = 0) or sine (first = 1) at x in [0, pi / 4], from the smallest term on: the first term
/// that is left out is below 2^-60.
[[nodiscard]] constexpr double taylor_series(double x, int first) {
    constexpr int last = 18;
    auto const square = rounded(x * x);
    double sum = 1.0;
    for (int degree = first + last; degree > first; degree -= 2) {
        auto const factor = square / static_cast<double>(degree * (degree - 1));
        sum = 1.0 - rounded(factor * sum);
    }
    return first == 0 ? sum : rounded(x * sum);
}

/// cos(pi * x) for x in [0, 1], within two units in the last place of 1. Additions, products and quotients alone, each rounded by
/// itself: the C library's cos picks its code by the processor, and two machines may differ in the last bit.
[[nodiscard]] constexpr double cosine_of_half_turns(double x) {
    constexpr double pi = 3.141592653589793;
    if (x > 0.5) return -cosine_of_half_turns(1.0 - x);
    if (x > 0.25) return taylor_series(rounded(pi * (0.5 - x)), 1);
    return taylor_series(rounded(pi * x), 0);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
