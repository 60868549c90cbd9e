// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What one element adds to a tensor's sum. For each place different elements give different terms: every step can be undone.
///
/// Source  Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, 2014: the steps and constants of SplitMix64
[[nodiscard]] constexpr std::uint64_t element_term(std::uint64_t place, std::uint64_t element) {
    auto mixed = (place + 1) * 0x9E37'79B9'7F4A'7C15U + element;
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58'476D'1CE4'E5B9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D0'49BB'1331'11EBU;
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

/// The checksum of a range of a tensor's elements, as they lie in a file. Sums of ranges add up (modulo 2^64) to that of the tensor,
/// whoever computes which. A change of one element is always seen, a change of several with a chance of 2^-64 not.
///
/// Units   first: elements before the range; bytes: `width` of them are an element, 1, 2, 4 or 8
[[nodiscard]] inline std::uint64_t tensor_sum(std::int64_t first, std::int64_t width, Span<std::byte const> bytes) {
    auto const place = static_cast<std::uint64_t>(first);
    auto const count = bytes.size() / static_cast<std::size_t>(width);
    if (width == 2) return detail::sum_terms<std::uint16_t>(place, bytes.data(), count);
    if (width == 4) return detail::sum_terms<std::uint32_t>(place, bytes.data(), count);
    if (width == 8) return detail::sum_terms<std::uint64_t>(place, bytes.data(), count);
    return detail::sum_terms<std::uint8_t>(place, bytes.data(), bytes.size());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
