// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Four words of 32 bits in a register.
using FourWords = std::uint32_t __attribute__((vector_size(16)));

/// Writes four rows of four words as columns, in registers.
inline void transpose_four_words(std::byte const* rows, std::int64_t row_bytes, std::byte* out,
                                 std::int64_t out_bytes) {
    auto const load = [&](std::int64_t row) {
        FourWords value;
        std::memcpy(&value, rows + row * row_bytes, sizeof value);
        return value;
    };
    auto const a = load(0);
    auto const b = load(1);
    auto const c = load(2);
    auto const d = load(3);
    FourWords const ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    FourWords const ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    FourWords const cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    FourWords const cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    FourWords const columns[] = {
        __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
        __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
    for (std::int64_t i = 0; i < 4; ++i) std::memcpy(out + i * out_bytes, &columns[i], sizeof(FourWords));
}

/// Writes rows of words as columns, in squares of 16: a cache line of each row is used up at once, as rows that lie a power of two
/// apart share the places of the first-level cache, which has fewer than 16 for them.
///
/// Shapes  from [rows, words], rows `row_bytes` apart; out [words, rows], rows `out_bytes` apart
inline void transpose_words(std::byte const* from, std::int64_t row_bytes, std::int64_t rows, std::int64_t words,
                            std::byte* out, std::int64_t out_bytes) {
    constexpr std::int64_t side = 16;
    for (std::int64_t first_row = 0; first_row < rows; first_row += side) {
        auto const last_row = std::min(first_row + side, rows);
        for (std::int64_t first_word = 0; first_word < words; first_word += side) {
            auto const last_word = std::min(first_word + side, words);
            auto row = first_row;
            for (; row + 4 <= last_row; row += 4) {
                auto word = first_word;
                for (; word + 4 <= last_word; word += 4) {
                    transpose_four_words(from + row * row_bytes + word * 4, row_bytes, out + word * out_bytes + row * 4,
                                         out_bytes);
                }
                for (; word < last_word; ++word) {
                    for (auto i = row; i < row + 4; ++i)
                        std::memcpy(out + word * out_bytes + i * 4, from + i * row_bytes + word * 4, 4);
                }
            }
            for (; row < last_row; ++row) {
                for (auto word = first_word; word < last_word; ++word)
                    std::memcpy(out + word * out_bytes + row * 4, from + row * row_bytes + word * 4, 4);
            }
        }
    }
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
