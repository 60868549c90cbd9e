// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/core/version.hpp>
#include <shardwise/train/detail/sum_terms.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The checksum of a range of a tensor's elements, as they lie in a file. Sums of ranges add up (modulo 2^64) to that of the tensor,
/// whoever computes which. A change of one element is always seen, a change of several with a chance of 2^-64 not.
///
/// Units   first: elements before the range; bytes: `width` of them are an element, 1, 2, 4 or 8
[[nodiscard]] inline std::uint64_t tensor_sum(std::int64_t first, std::int64_t width, Span<std::byte const> bytes) {
    auto const place = static_cast<std::uint64_t>(first);
    auto const count = bytes.size() / static_cast<std::size_t>(width);
    if (width == 2) return detail::sum_terms_fast<std::uint16_t>(place, bytes.data(), count);
    if (width == 4) return detail::sum_terms_fast<std::uint32_t>(place, bytes.data(), count);
    if (width == 8) return detail::sum_terms_fast<std::uint64_t>(place, bytes.data(), count);
    return detail::sum_terms_fast<std::uint8_t>(place, bytes.data(), bytes.size());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
