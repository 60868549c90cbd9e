// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/philox.hpp>

#include <cmath>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Elements of Kaiming's uniform numbers with a slope of sqrt(5), from the `first` on: as far as 1 / sqrt(inputs). Of 24 bits.
inline void fill_uniform(float* to, std::int64_t first, std::int64_t count, std::int64_t inputs, std::uint64_t seed,
                         std::uint64_t stream) {
    auto const reach = 1.0 / std::sqrt(static_cast<double>(inputs));
    for (std::int64_t i = 0; i < count; ++i) {
        auto const word = random_words(seed, stream, static_cast<std::uint64_t>(first + i))[0] >> 8U;
        to[i] = static_cast<float>(reach * (static_cast<double>(word) / 8388608.0 - 1.0));
    }
}

/// The same of normal numbers, each the sum of eight uniform ones.
inline void fill_normal(float* to, std::int64_t first, std::int64_t count, double deviation, std::uint64_t seed,
                        std::uint64_t stream) {
    // Eight uniform numbers of 0 to 2^16 - 1 have 8 * (2^32 - 1) / 12 as the square of their sum's deviation.
    auto const scale = deviation / std::sqrt(8.0 * 4294967295.0 / 12.0);
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t sum = 0;
        for (auto const word : random_words(seed, stream, static_cast<std::uint64_t>(first + i)))
            sum += (word & 0xFFFFU) + (word >> 16U);
        to[i] = static_cast<float>(static_cast<double>(2 * sum - 8 * 65535) * (0.5 * scale));
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
