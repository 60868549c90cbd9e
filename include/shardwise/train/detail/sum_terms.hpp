// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The steps' constants.
///
/// Source  Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, 2014: SplitMix64
inline constexpr std::array<std::uint64_t, 3> mix_factors{0x9E37'79B9'7F4A'7C15U, 0xBF58'476D'1CE4'E5B9U,
                                                          0x94D0'49BB'1331'11EBU};

/// What one element adds to a tensor's sum. For each place different elements give different terms: every step can be undone.
[[nodiscard]] constexpr std::uint64_t element_term(std::uint64_t place, std::uint64_t element) {
    auto mixed = (place + 1) * mix_factors[0] + element;
    mixed = (mixed ^ (mixed >> 30U)) * mix_factors[1];
    mixed = (mixed ^ (mixed >> 27U)) * mix_factors[2];
    return mixed ^ (mixed >> 31U);
}

template <class Element>
[[nodiscard]] std::uint64_t sum_terms(std::uint64_t first, std::byte const* data, std::size_t count) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
        Element element;
        std::memcpy(&element, data + i * sizeof(Element), sizeof(Element));
        sum += element_term(first + i, element);
    }
    return sum;
}

}  // namespace detail

#if defined(SHARDWISE_HAS_X86_LEVELS)

SHARDWISE_TARGET_BEGIN_AVX512

namespace detail::kernels_avx512 {

/// Eight elements of so many bytes.
template <std::size_t width>
[[nodiscard]] inline __m512i load_elements(std::byte const* data) {
    if constexpr (width == 1) return _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(data)));
    if constexpr (width == 2) return _mm512_cvtepu16_epi64(_mm_loadu_si128(reinterpret_cast<__m128i const*>(data)));
    if constexpr (width == 4) return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(data)));
    if constexpr (width == 8) return _mm512_loadu_si512(data);
}

/// The sum of `eights` times eight elements: below this level there are no products of 64 bits in vectors.
template <class Element>
[[nodiscard]] std::uint64_t sum_terms(std::uint64_t first, std::byte const* data, std::size_t eights) {
    alignas(64) std::uint64_t eight[8];
    for (std::uint64_t i = 0; i < 8; ++i) eight[i] = (first + i + 1) * mix_factors[0];
    auto place = _mm512_load_si512(eight);
    auto const next = _mm512_set1_epi64(static_cast<long long>(8 * mix_factors[0]));
    auto const second = _mm512_set1_epi64(static_cast<long long>(mix_factors[1]));
    auto const third = _mm512_set1_epi64(static_cast<long long>(mix_factors[2]));
    auto sum = _mm512_setzero_si512();
    for (std::size_t i = 0; i < eights; ++i) {
        auto mixed = _mm512_add_epi64(place, load_elements<sizeof(Element)>(data + i * 8 * sizeof(Element)));
        mixed = _mm512_mullo_epi64(_mm512_xor_si512(mixed, _mm512_srli_epi64(mixed, 30)), second);
        mixed = _mm512_mullo_epi64(_mm512_xor_si512(mixed, _mm512_srli_epi64(mixed, 27)), third);
        sum = _mm512_add_epi64(sum, _mm512_xor_si512(mixed, _mm512_srli_epi64(mixed, 31)));
        place = _mm512_add_epi64(place, next);
    }
    _mm512_store_si512(eight, sum);
    std::uint64_t out = 0;
    for (auto const one : eight) out += one;
    return out;
}

}  // namespace detail::kernels_avx512

SHARDWISE_TARGET_END

#endif

namespace detail {

/// The same sum by the machine's instructions.
template <class Element>
[[nodiscard]] std::uint64_t sum_terms_fast(std::uint64_t first, std::byte const* data, std::size_t count) {
    std::size_t done = 0;
    std::uint64_t sum = 0;
#if defined(SHARDWISE_HAS_X86_LEVELS)
    static bool const has_lanes = choose_isa() && *choose_isa() >= IsaLevel::avx512;
    if (has_lanes) {
        auto* const kernel = &kernels_avx512::sum_terms<Element>;
        done = count / 8 * 8;
        sum = kernel(first, data, count / 8);
    }
#endif
    return sum + sum_terms<Element>(first + done, data + done * sizeof(Element), count - done);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
