// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Where the parts of a step table lie in its block of 32-bit numbers: each begins on 16 bytes, and the lists of pages are last, those
/// of a sequence together, so that a copy can end with the last sequence that there is.
struct StepLayout {
    /// How many tokens, sequences and wanted rows the step has.
    static constexpr std::int64_t counts = 0;
    /// Of each token.
    std::int64_t ids;
    std::int64_t positions;
    /// The number of its sequence.
    std::int64_t sequence;
    /// Of each sequence: its first row, its rows, its tokens in the cache, those with its rows, those of its source, and where its states
    /// are.
    std::int64_t first;
    std::int64_t rows;
    std::int64_t past;
    std::int64_t length;
    std::int64_t source;
    std::int64_t slot;
    std::int64_t wanted;
    /// [sequences, groups, pages]
    std::int64_t lists;

    std::int64_t max_tokens;
    std::int64_t max_sequences;
    std::int64_t max_wanted;
    std::int64_t groups;
    std::int64_t pages;
    /// Rows of a page are 2^page_shift.
    int page_shift;

    constexpr StepLayout(std::int64_t tokens, std::int64_t sequences, std::int64_t wanted_rows,
                         std::int64_t group_count, std::int64_t page_count, int shift)
        : ids(counts + 4),
          positions(ids + aligned(tokens)),
          sequence(positions + aligned(tokens)),
          first(sequence + aligned(tokens)),
          rows(first + aligned(sequences)),
          past(rows + aligned(sequences)),
          length(past + aligned(sequences)),
          source(length + aligned(sequences)),
          slot(source + aligned(sequences)),
          wanted(slot + aligned(sequences)),
          lists(wanted + aligned(wanted_rows)),
          max_tokens(tokens),
          max_sequences(sequences),
          max_wanted(wanted_rows),
          groups(group_count),
          pages(page_count),
          page_shift(shift) {}

    /// Numbers up to the lists of so many sequences.
    [[nodiscard]] constexpr std::int64_t size(std::int64_t sequences) const {
        return lists + sequences * groups * pages;
    }
    [[nodiscard]] constexpr std::int64_t size() const { return size(max_sequences); }

private:
    [[nodiscard]] static constexpr std::int64_t aligned(std::int64_t count) { return (count + 3) / 4 * 4; }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
