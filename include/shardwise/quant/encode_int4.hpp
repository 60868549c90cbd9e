// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/encode_legacy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Quantizes a row to our `int4`, whose element is scale * (nibble - 8), the first of a byte in its low half: each group's scale is
/// its value farthest from zero over -8, rounded to a half; the integers are the nearest for that half, halves to even.
///
/// Shapes  values [n], packed [(n + 1) / 2], scales [ceil(n / group)] (halves)
/// Errors  shape_mismatch
[[nodiscard]] constexpr Result<> encode_int4_row(std::span<float const> values, std::size_t group,
                                                 std::span<std::uint8_t> packed, std::span<std::uint16_t> scales) {
    auto const groups = group == 0 ? 0 : ceil_divide(values.size(), group);
    if (group == 0 || packed.size() != (values.size() + 1) / 2 || scales.size() != groups) {
        return Error{ErrorCode::shape_mismatch}.because("packed elements or scales do not fit the length of the row");
    }
    if (values.size() % 2 != 0) packed[values.size() / 2] = 0;
    for (std::size_t k = 0; k < groups; ++k) {
        auto const begin = k * group;
        auto const part = values.subspan(begin, std::min(group, values.size() - begin));
        auto const found = detail::extremes_of(part);
        scales[k] = found.has_nan ? std::uint16_t{0x7E00} : to_f16(found.farthest / -8.0F);
        auto const scale = from_f16(scales[k]);
        for (std::size_t i = 0; i < part.size(); ++i) {
            auto const quotient = scale == 0.0F ? 0.0F : part[i] / scale;
            auto const q = static_cast<unsigned>(detail::round_even_within(quotient, -8, 7) + 8);
            auto& byte = packed[(begin + i) / 2];
            byte = (begin + i) % 2 == 0 ? static_cast<std::uint8_t>((byte & 0xF0U) | q)
                                        : static_cast<std::uint8_t>((byte & 0x0FU) | (q << 4U));
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
