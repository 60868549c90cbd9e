// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// `bits` bits at a bit offset of a column of words that are `stride` apart; the bits may cross into the next word.
[[nodiscard]] constexpr int load_packed(std::span<std::uint32_t const> words, std::size_t first, std::size_t stride,
                                        std::size_t bit, unsigned bits) {
    auto const word = first + bit / 32 * stride;
    auto const shift = bit % 32;
    std::uint64_t value = words[word];
    if (shift + bits > 32) value |= static_cast<std::uint64_t>(words[word + stride]) << 32U;
    return static_cast<int>((value >> shift) & ((1U << bits) - 1U));
}

}  // namespace detail

/// One weight as GPTQ checkpoints store it, [outputs, inputs] in torch's terms. Inputs are packed down the rows of
/// qweight, outputs along the rows of qzeros, lowest bits first, three-bit elements across word borders.
///
/// Shapes  qweight [inputs * bits / 32, outputs], qzeros [groups, outputs * bits / 32], scales [groups, outputs]
///         (halves), g_idx [inputs]; row-major
/// Source  AutoGPTQ qlinear_cuda_old.py (pack)
struct GptqWeight {
    std::span<std::uint32_t const> qweight{};
    std::span<std::uint32_t const> qzeros{};
    std::span<std::uint16_t const> scales{};
    std::span<std::int32_t const> g_idx{};
    std::size_t inputs = 0;
    std::size_t outputs = 0;
    std::size_t groups = 0;
    unsigned bits = 4;
    /// What the file subtracted from a zero point; 0 in GPTQModel's format "gptq_v2".
    int zero_offset = 1;

    /// Whether the parts fit together, so that `at` stays within them.
    ///
    /// Errors  invalid_argument, shape_mismatch
    [[nodiscard]] constexpr Result<> check() const {
        if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
            return Error{ErrorCode::invalid_argument}.at("bits").because("GPTQ packs 2, 3, 4 or 8 bits").got(bits);
        }
        bool const is_whole = inputs * bits % 32 == 0 && outputs * bits % 32 == 0;
        if (!is_whole || qweight.size() != inputs * bits / 32 * outputs ||
            qzeros.size() != groups * (outputs * bits / 32) || scales.size() != groups * outputs ||
            g_idx.size() != inputs) {
            return Error{ErrorCode::shape_mismatch}.because("qweight, qzeros, scales and g_idx do not fit together");
        }
        for (auto const group : g_idx) {
            if (group < 0 || static_cast<std::size_t>(group) >= groups) {
                auto error = Error{ErrorCode::shape_mismatch}.at("g_idx");
                return error.because("it names a group that does not exist").got(group);
            }
        }
        return {};
    }

    /// The element at [output, input]: scale * (q - zero).
    [[nodiscard]] constexpr float at(std::size_t output, std::size_t input) const {
        auto const group = static_cast<std::size_t>(g_idx[input]);
        auto const q = detail::load_packed(qweight, output, outputs, input * bits, bits);
        auto const zeros = group * (outputs * bits / 32);
        auto const zero = detail::load_packed(qzeros, zeros, 1, output * bits, bits) + zero_offset;
        return from_f16(scales[group * outputs + output]) * static_cast<float>(q - zero);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
