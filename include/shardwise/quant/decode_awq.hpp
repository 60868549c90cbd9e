// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One weight as AWQ checkpoints (gemm version) store it, [outputs, inputs] in torch's terms. Outputs are packed along
/// the rows, eight to a word, in the order 0, 2, 4, 6, 1, 3, 5, 7.
///
/// Shapes  qweight [inputs, outputs / 8], qzeros [groups, outputs / 8], scales [groups, outputs] (halves); row-major
/// Source  AutoAWQ awq/modules/linear/gemm.py (order_map)
struct AwqWeight {
    std::span<std::uint32_t const> qweight{};
    std::span<std::uint32_t const> qzeros{};
    std::span<std::uint16_t const> scales{};
    std::size_t inputs = 0;
    std::size_t outputs = 0;
    std::size_t group = 128;

    /// Whether the parts fit together, so that `at` stays within them.
    ///
    /// Errors  shape_mismatch
    [[nodiscard]] constexpr Result<> check() const {
        auto const groups = group == 0 ? 0 : ceil_divide(inputs, group);
        if (group == 0 || outputs % 8 != 0 || qweight.size() != inputs * (outputs / 8) ||
            qzeros.size() != groups * (outputs / 8) || scales.size() != groups * outputs) {
            return Error{ErrorCode::shape_mismatch}.because("qweight, qzeros and scales do not fit together");
        }
        return {};
    }

    /// The element at [output, input]: scale * (q - zero).
    [[nodiscard]] constexpr float at(std::size_t output, std::size_t input) const {
        // The nibble of a word that holds output k of its eight: the inverse of 0, 2, 4, 6, 1, 3, 5, 7.
        constexpr std::array<std::size_t, 8> nibble_of{0, 4, 1, 5, 2, 6, 3, 7};
        auto const words = outputs / 8;
        auto const shift = nibble_of[output % 8] * 4;
        auto const q = (qweight[input * words + output / 8] >> shift) & 15U;
        auto const zero = (qzeros[input / group * words + output / 8] >> shift) & 15U;
        return from_f16(scales[input / group * outputs + output]) *
               static_cast<float>(static_cast<int>(q) - static_cast<int>(zero));
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
