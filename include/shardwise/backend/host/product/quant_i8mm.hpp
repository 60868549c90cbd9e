// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/backend/host/product/quant_neon.hpp>
#include <shardwise/backend/host/product/rounded_record.hpp>

#include <cstddef>
#include <cstdint>

#if defined(SHARDWISE_HAS_ARM_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_NEON_I8MM

namespace detail::quant_neon_i8mm {

/// Adds products of two matrices of 2 by 8 bytes: sums[2 i + j] += the sum over k of codes[8 i + k] (unsigned) * values[8 j + k]
/// (signed). As byte_dot, it is not left to an intrinsic.
SHARDWISE_ALWAYS_INLINE Ints matrix_dot(Ints sums, Ints codes, Ints values) {
    asm("usmmla %0.4s, %1.16b, %2.16b" : "+w"(sums) : "w"(codes), "w"(values));
    return sums;
}

/// Eight values of each of two rows.
SHARDWISE_ALWAYS_INLINE Ints pair_values(std::int8_t const* first, std::int8_t const* second) {
    return vreinterpretq_s32_s8(vcombine_s8(vld1_s8(first), vld1_s8(second)));
}

/// Adds blocks to pairs of rows by products of matrices, to a row that is left by vectors: the sums of whole numbers are the same.
class MatrixUnit {
public:
    template <int parts>
    void begin() {}
    void end() {}

    template <RoundedScaling scaling, int joined>
    [[gnu::noinline]] void add(RoundedBlock const& block, RoundedSums all, std::int64_t rows) {
        if (rows > 1) pair_outputs(block.codes);
        add_pairs<scaling, max_pairs>(block, all, rows);
        if (rows > 0) add_rounded_block<scaling, joined>(block, all, rows);
    }

private:
    /// Pairs of rows of the largest tile, by `tile_outputs` outputs: 16 registers of sums of 32.
    static constexpr int max_pairs = 4;
    static constexpr int output_pairs = 4;
    static constexpr int tile_outputs = 2 * output_pairs;

    /// Two outputs of eight inputs each beside each other: [4 times 8 inputs, 8 pairs of outputs, 2, 8].
    void pair_outputs(std::byte const* codes) {
        auto* to = codes_;
        for (int eighth = 0; eighth < 4; ++eighth) {
            auto const* const from = codes + eighth * 128;
            for (int half = 0; half < halves; ++half, to += 32) {
                Ints const first = load_ints(from + half * lanes * 4);
                Ints const second = load_ints(from + 64 + half * lanes * 4);
                store_ints(to, vzip1q_s32(first, second));
                store_ints(to + 16, vzip2q_s32(first, second));
            }
        }
    }

    /// Adds as many rows as fill whole tiles of `pairs` pairs, then the others by smaller ones; `all` and `rows` are what is left.
    template <RoundedScaling scaling, int pairs>
    SHARDWISE_ALWAYS_INLINE void add_pairs(RoundedBlock const& block, RoundedSums& all, std::int64_t& rows) const {
        for (; rows >= 2 * pairs; rows -= 2 * pairs) {
            add_part<scaling, pairs, 0>(block, all);
            if constexpr (scaling == RoundedScaling::two) add_part<scaling, pairs, 1>(block, all);
            all.prepared += 2 * pairs * all.stride;
            all.sums += 2 * pairs * panel_outputs;
        }
        if constexpr (pairs > 1) add_pairs<scaling, pairs / 2>(block, all, rows);
    }

    template <RoundedScaling scaling, int pairs, int part>
    SHARDWISE_ALWAYS_INLINE void add_part(RoundedBlock const& block, RoundedSums const& all) const {
        constexpr int eighths = scaling == RoundedScaling::two ? 2 : 4;
        RoundedRecord const* records[extent<2 * pairs>];
        SHARDWISE_UNROLL
        for (int row = 0; row < 2 * pairs; ++row)
            records[row] = reinterpret_cast<RoundedRecord const*>(all.prepared + row * all.stride);
        for (int first_output = 0; first_output < panel_outputs; first_output += tile_outputs) {
            Ints dots[extent<pairs>][extent<output_pairs>];
            SHARDWISE_UNROLL
            for (int pair = 0; pair < pairs; ++pair) {
                SHARDWISE_UNROLL
                for (int output = 0; output < output_pairs; ++output) dots[pair][output] = splat_int(0);
            }
            SHARDWISE_UNROLL
            for (int eighth = part * eighths; eighth < (part + 1) * eighths; ++eighth) {
                auto const* const from = codes_ + eighth * 128 + first_output * 8;
                Ints codes[extent<output_pairs>];
                SHARDWISE_UNROLL
                for (int output = 0; output < output_pairs; ++output) codes[output] = load_ints(from + 16 * output);
                SHARDWISE_UNROLL
                for (int pair = 0; pair < pairs; ++pair) {
                    Ints const values =
                        pair_values(records[2 * pair]->values + 8 * eighth, records[2 * pair + 1]->values + 8 * eighth);
                    SHARDWISE_UNROLL
                    for (int output = 0; output < output_pairs; ++output)
                        dots[pair][output] = matrix_dot(dots[pair][output], codes[output], values);
                }
            }
            SHARDWISE_UNROLL
            for (int pair = 0; pair < pairs; ++pair) {
                SHARDWISE_UNROLL
                for (int half = 0; half < output_pairs / 2; ++half) {
                    auto const lane = first_output + half * static_cast<int>(lanes);
                    Ints const low = dots[pair][2 * half];
                    Ints const high = dots[pair][2 * half + 1];
                    add_scaled<scaling, part>(block, *records[2 * pair], lane, vuzp1q_s32(low, high),
                                              all.sums + 2 * pair * panel_outputs);
                    add_scaled<scaling, part>(block, *records[2 * pair + 1], lane, vuzp2q_s32(low, high),
                                              all.sums + (2 * pair + 1) * panel_outputs);
                }
            }
        }
    }

    /// Adds a part's sums of products to `lanes` sums of a row, as add_rounded_tile does.
    template <RoundedScaling scaling, int part>
    SHARDWISE_ALWAYS_INLINE void add_scaled(RoundedBlock const& block, RoundedRecord const& record, int lane, Ints dots,
                                            float* row) const {
        if constexpr (scaling != RoundedScaling::minima) dots = vaddq_s32(dots, splat_int(record.starts[part]));
        Floats sum =
            add_scaled_dots<scaling>(dots, record, load_floats(block.scales[part] + lane), load_floats(row + lane));
        if constexpr (scaling == RoundedScaling::minima)
            sum = fused(splat(record.sum), load_floats(block.minima + lane), sum);
        store_floats(row + lane, sum);
    }

    alignas(64) std::byte codes_[8 * 64];
};

}  // namespace detail::quant_neon_i8mm

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
