// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/encode_legacy.hpp>
#include <shardwise/quant/nf4_values.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The code of NF4 nearest to a value of [-1, 1], the lower of two at the same distance. The middles are floats.
[[nodiscard]] constexpr unsigned nearest_nf4(float value) {
    unsigned code = 0;
    while (code < 15 && value > (nf4_values[code] + nf4_values[code + 1]) / 2.0F) ++code;
    return code;
}

}  // namespace detail

/// Quantizes a weight to NF4 (nf4_values): the greatest magnitude of each block, and the nearest code of x * (1 /
/// magnitude). The first element of a byte lies in its high half.
///
/// Shapes  values [n], packed [(n + 1) / 2], absmax [ceil(n / block)]
/// Errors  shape_mismatch
/// Source  bitsandbytes kernels.cu (kQuantizeBlockwise, dQuantizeNF4)
[[nodiscard]] constexpr Result<> encode_nf4(std::span<float const> values, std::span<std::uint8_t> packed,
                                            std::span<float> absmax, std::size_t block = 64) {
    auto const blocks = block == 0 ? 0 : ceil_divide(values.size(), block);
    if (block == 0 || packed.size() != (values.size() + 1) / 2 || absmax.size() != blocks) {
        return Error{ErrorCode::shape_mismatch}.because("packed elements or absmax do not fit the number of elements");
    }
    if (values.size() % 2 != 0) packed[values.size() / 2] = 0;
    for (std::size_t k = 0; k < blocks; ++k) {
        auto const begin = k * block;
        auto const part = values.subspan(begin, std::min(block, values.size() - begin));
        absmax[k] = detail::extremes_of(part).magnitude();
        auto const inverse = detail::reciprocal(absmax[k]);
        for (std::size_t i = 0; i < part.size(); ++i) {
            auto const q = detail::nearest_nf4(detail::rounded_product(part[i], inverse));
            auto& byte = packed[(begin + i) / 2];
            byte = (begin + i) % 2 == 0 ? static_cast<std::uint8_t>((byte & 0x0FU) | (q << 4U))
                                        : static_cast<std::uint8_t>((byte & 0xF0U) | q);
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
