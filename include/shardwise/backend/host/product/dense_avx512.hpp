// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_AVX512

namespace detail::avx512 {

#include <shardwise/backend/host/product/dense_avx512_tiles.inc>

/// How the values of the 16 outputs of a panel are read: one register for each of `inputs` inputs, and multiplied. One row has `chains` sums of
/// tile_inputs products at a time: a chain of multiply-adds for each 64 bytes keeps up with memory, one of twice as many does not.
struct ReadF32 {
    static constexpr unsigned inputs = 1;
    static constexpr std::int64_t pair = 1;
    static constexpr int chains = 1;
    static constexpr std::int64_t bytes = 64;
    static void read(std::byte const* from, __m512* values) { values[0] = _mm512_load_ps(from); }
    static void read_last(std::byte const*, __m512*) {}
    static __m512 add(__m512 sum, __m512 factor, __m512 value) { return _mm512_fmadd_ps(factor, value, sum); }
};
struct ReadBf16 {
    static constexpr unsigned inputs = 2;
    static constexpr std::int64_t pair = 2;
    static constexpr int chains = 2;
    static constexpr std::int64_t bytes = 64;
    static void read(std::byte const* from, __m512* values) {
        auto const pairs = _mm512_load_si512(from);
        values[0] = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
        values[1] = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)));
    }
    static void read_last(std::byte const* from, __m512* values) {
        values[0] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_load_si512(from), 16));
    }
    static __m512 add(__m512 sum, __m512 factor, __m512 value) { return _mm512_fmadd_ps(factor, value, sum); }
};
struct ReadF16 {
    static constexpr unsigned inputs = 2;
    static constexpr std::int64_t pair = 1;
    static constexpr int chains = 2;
    static constexpr std::int64_t bytes = 64;
    static void read(std::byte const* from, __m512* values) {
        auto const* const halves = reinterpret_cast<__m256i const*>(from);
        values[0] = _mm512_cvtph_ps(_mm256_load_si256(halves));
        values[1] = _mm512_cvtph_ps(_mm256_load_si256(halves + 1));
    }
    static void read_last(std::byte const* from, __m512* values) {
        values[0] = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<__m256i const*>(from)));
    }
    static __m512 add(__m512 sum, __m512 factor, __m512 value) { return _mm512_fmadd_ps(factor, value, sum); }
};

}  // namespace detail::avx512

SHARDWISE_TARGET_END

namespace detail::avx512 {

inline void multiply_f32(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadF32>);
}
inline void multiply_bf16(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadBf16>);
}
inline void multiply_f16(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadF16>);
}

}  // namespace detail::avx512

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
