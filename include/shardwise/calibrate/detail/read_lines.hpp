// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

inline std::uint64_t read_lines_portable(std::byte const* from, std::int64_t bytes) {
    std::uint64_t sums[4] = {};
    for (std::int64_t i = 0; i + 32 <= bytes; i += 32) {
        std::uint64_t values[4];
        std::memcpy(values, from + i, sizeof values);
        for (int j = 0; j < 4; ++j) sums[j] ^= values[j];
    }
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}

#if defined(SHARDWISE_HAS_X86_LEVELS)

SHARDWISE_TARGET_BEGIN_AVX2

inline std::uint64_t read_lines_avx2(std::byte const* from, std::int64_t bytes, int streams) {
    auto const piece = bytes / streams / 128 * 128;
    auto sum0 = _mm256_setzero_si256();
    auto sum1 = sum0;
    for (std::int64_t i = 0; i < piece; i += 128) {
        for (int stream = 0; stream < streams; ++stream) {
            auto const* const at = reinterpret_cast<__m256i const*>(from + stream * piece + i);
            sum0 = _mm256_xor_si256(sum0, _mm256_xor_si256(_mm256_load_si256(at), _mm256_load_si256(at + 1)));
            sum1 = _mm256_xor_si256(sum1, _mm256_xor_si256(_mm256_load_si256(at + 2), _mm256_load_si256(at + 3)));
        }
    }
    alignas(32) std::uint64_t values[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(values), _mm256_xor_si256(sum0, sum1));
    return values[0] ^ values[1] ^ values[2] ^ values[3];
}

SHARDWISE_TARGET_END

SHARDWISE_TARGET_BEGIN_AVX512

inline std::uint64_t read_lines_avx512(std::byte const* from, std::int64_t bytes, int streams) {
    auto const piece = bytes / streams / 128 * 128;
    auto sum0 = _mm512_setzero_si512();
    auto sum1 = sum0;
    for (std::int64_t i = 0; i < piece; i += 128) {
        for (int stream = 0; stream < streams; ++stream) {
            auto const* const at = from + stream * piece + i;
            sum0 = _mm512_xor_si512(sum0, _mm512_load_si512(at));
            sum1 = _mm512_xor_si512(sum1, _mm512_load_si512(at + 64));
        }
    }
    return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(_mm512_xor_si512(sum0, sum1)));
}

SHARDWISE_TARGET_END

#elif defined(SHARDWISE_HAS_ARM_LEVELS)

SHARDWISE_TARGET_BEGIN_NEON

inline std::uint64_t read_lines_neon(std::byte const* from, std::int64_t bytes, int streams) {
    auto const piece = bytes / streams / 128 * 128;
    uint8x16_t sums[4] = {vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0)};
    for (std::int64_t i = 0; i < piece; i += 128) {
        for (int stream = 0; stream < streams; ++stream) {
            auto const* const at = reinterpret_cast<std::uint8_t const*>(from + stream * piece + i);
            SHARDWISE_UNROLL
            for (int j = 0; j < 4; ++j)
                sums[j] = veorq_u8(sums[j], veorq_u8(vld1q_u8(at + 16 * j), vld1q_u8(at + 64 + 16 * j)));
        }
    }
    auto const sum = vreinterpretq_u64_u8(veorq_u8(veorq_u8(sums[0], sums[1]), veorq_u8(sums[2], sums[3])));
    return vgetq_lane_u64(sum, 0) ^ vgetq_lane_u64(sum, 1);
}

SHARDWISE_TARGET_END

#endif

/// Reads a range that begins at a cache line once, as `streams` pieces side by side, and gives something that depends
/// on all of it.
inline std::uint64_t read_lines(std::byte const* from, std::int64_t bytes, [[maybe_unused]] int streams,
                                [[maybe_unused]] IsaLevel isa) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (isa >= IsaLevel::avx512) return read_lines_avx512(from, bytes, streams);
    if (isa >= IsaLevel::avx2) return read_lines_avx2(from, bytes, streams);
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
    if (isa >= IsaLevel::neon) return read_lines_neon(from, bytes, streams);
#endif
    return read_lines_portable(from, bytes);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
