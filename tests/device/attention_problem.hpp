// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/attention_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace shardwise;

/// A step's attention: its shape, its sequences, and how its rows lie in memory.
struct AttentionProblem {
    std::string name;
    AttentionOptions options;
    struct Sequence {
        std::int64_t past;
        std::int64_t rows;
        std::int64_t source = 0;
    };
    std::vector<Sequence> sequences;
    bool has_sinks = false;
    bool has_slopes = false;
    /// Keys are the step's own rows.
    bool is_own = false;
    /// Elements between rows, and before the first of them.
    std::int64_t gap = 0;
    std::int64_t shift = 0;

    [[nodiscard]] std::int64_t tokens() const {
        std::int64_t count = 0;
        for (auto const& sequence : sequences) count += sequence.rows;
        return count;
    }
    [[nodiscard]] std::int64_t past(std::size_t sequence) const { return is_own ? 0 : sequences[sequence].past; }
    /// Keys of a sequence, and rows that it has in pages.
    [[nodiscard]] std::int64_t length(std::size_t sequence) const {
        auto const& of = sequences[sequence];
        return options.shape.is_cross ? of.source : past(sequence) + of.rows;
    }
    [[nodiscard]] std::int64_t held(std::size_t sequence) const {
        return std::max(past(sequence) + sequences[sequence].rows, sequences[sequence].source);
    }
};

AttentionOptions attention_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t key_dim, std::int64_t value_dim,
                              std::int64_t window = 0, bool is_causal = true) {
    AttentionOptions options;
    options.shape = {.heads = heads,
                     .kv_heads = kv_heads,
                     .key_dim = key_dim,
                     .value_dim = value_dim,
                     .window = window,
                     .is_causal = is_causal};
    return options;
}

}  // namespace
