// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/scalar_math.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How much each head's scores fall with the distance of a key (ALiBi): powers of 2^(-8 / n) for the greatest power of
/// two n of heads, and for the others every second power of 2^(-4 / n).
///
/// Source  Press et al., ALiBi, 2021; transformers 4.57 models/bloom/modeling_bloom.py (build_alibi_tensor)
[[nodiscard]] inline List<float> alibi_slopes(std::int64_t heads) {
    std::int64_t even = 1;
    while (2 * even <= heads) even *= 2;
    List<float> slopes(static_cast<std::size_t>(heads));
    for (std::int64_t head = 0; head < heads; ++head) {
        bool const is_even = head < even;
        auto const base = static_cast<float>(detail::power_of(2.0, -(is_even ? 8.0 : 4.0) / static_cast<double>(even)));
        auto const power = is_even ? head + 1 : 2 * (head - even) + 1;
        slopes[static_cast<std::size_t>(head)] =
            static_cast<float>(detail::power_of(static_cast<double>(base), static_cast<double>(power)));
    }
    return slopes;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
