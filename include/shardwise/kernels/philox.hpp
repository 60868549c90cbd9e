// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Four random words for a counter and a key: a function without state, so that a draw depends on what is drawn and not on who
/// drew before (Philox4x32-10).
///
/// Source  Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                            std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        auto const first = std::uint64_t{0xD2511F53U} * counter[0];
        auto const second = std::uint64_t{0xCD9E8D57U} * counter[2];
        counter = {static_cast<std::uint32_t>(second >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
                   static_cast<std::uint32_t>(first >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
    return counter;
}

/// Four random words for a draw of a stream under a seed.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> random_words(std::uint64_t seed, std::uint64_t stream,
                                                                  std::uint64_t draw) {
    auto const low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
    auto const high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); };
    return philox({low(draw), high(draw), low(stream), high(stream)}, {low(seed), high(seed)});
}

/// 64 random bits for a draw of a stream under a seed.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t draw) {
    auto const words = random_words(seed, stream, draw);
    return (static_cast<std::uint64_t>(words[1]) << 32U) | words[0];
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
