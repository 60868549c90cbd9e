// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Decodes a row of our `int4`: scale * (q - 8), an fp16 scale for each group; element 2i lies in the low and 2i + 1 in
/// the high half of byte i.
///
/// Shapes  packed [(n + 1) / 2], scales [ceil(n / group)] (halves), out [n]
/// Errors  shape_mismatch
[[nodiscard]] constexpr Result<> decode_int4_row(std::span<std::uint8_t const> packed,
                                                 std::span<std::uint16_t const> scales, std::size_t group,
                                                 std::span<float> out) {
    auto const groups = group == 0 ? 0 : ceil_divide(out.size(), group);
    if (group == 0 || packed.size() != (out.size() + 1) / 2 || scales.size() != groups) {
        return Error{ErrorCode::shape_mismatch}.because("packed elements or scales do not fit the length of the row");
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
        auto const q = detail::load_bits(packed, i / 2, i % 2 * 4, 4) - 8;
        out[i] = from_f16(scales[i / group]) * static_cast<float>(q);
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
