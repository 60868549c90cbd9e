// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A keyed hash of a name from a file. Weaker hashes are invertible, so that a hostile file of colliding names would
/// turn every look-up into a scan.
///
/// Source  SipHash-1-3: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012)
[[nodiscard]] inline std::uint64_t hash_name(std::string_view text) {
    // The key is the paper's initial state for an arbitrary constant; nothing secret is needed against prepared files.
    std::uint64_t v0 = 0x736f6d6570736575ULL ^ 0x0706050403020100ULL;
    std::uint64_t v1 = 0x646f72616e646f6dULL ^ 0x0f0e0d0c0b0a0908ULL;
    std::uint64_t v2 = 0x6c7967656e657261ULL ^ 0x0706050403020100ULL;
    std::uint64_t v3 = 0x7465646279746573ULL ^ 0x0f0e0d0c0b0a0908ULL;
    auto const rotate = [](std::uint64_t value, unsigned count) { return (value << count) | (value >> (64U - count)); };
    auto const round = [&] {
        v0 += v1, v1 = rotate(v1, 13), v1 ^= v0, v0 = rotate(v0, 32);
        v2 += v3, v3 = rotate(v3, 16), v3 ^= v2;
        v0 += v3, v3 = rotate(v3, 21), v3 ^= v0;
        v2 += v1, v1 = rotate(v1, 17), v1 ^= v2, v2 = rotate(v2, 32);
    };
    auto const absorb = [&](std::uint64_t word) {
        v3 ^= word;
        round();
        v0 ^= word;
    };
    std::size_t position = 0;
    for (; position + 8 <= text.size(); position += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data() + position, 8);
        absorb(word);
    }
    std::uint64_t last = 0;
    if (position < text.size()) std::memcpy(&last, text.data() + position, text.size() - position);
    absorb(last | (static_cast<std::uint64_t>(text.size()) << 56U));
    v2 ^= 0xff;
    round();
    round();
    round();
    return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
