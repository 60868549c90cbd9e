// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/architecture.hpp>
#include <shardwise/model/block_program.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The attention that computes in the latent, where a value is what it would expand the latent to; else null.
[[nodiscard]] inline Operation const* attention_that_expands(ValueId id, BlockBody const& body) {
    for (auto const& op : body.operations()) {
        if (op.kind == OpKind::attention && op.attention().latent > 0 && op.inputs[2] == id) return &op;
    }
    return nullptr;
}

namespace detail {

/// Appends the rows of a GGUF weight that holds the queries of all key heads, then their keys, values and gates. `range` counts
/// each head's query, key, values and gates, of whole heads.
///
/// Source  llama.cpp conversion/qwen.py (Qwen3NextModel.modify_tensors)
inline void append_delta_rows(StoredHeads const& stored, UnitRange range, std::vector<UnitRange>& rows) {
    auto const width = 2 * (stored.dim + stored.value_rows);
    for (auto head = range.begin / width; head < range.end / width; ++head) {
        std::int64_t first = 0;
        for (auto const size : {stored.dim, stored.dim, stored.value_rows, stored.value_rows}) {
            rows.push_back({first + head * size, first + (head + 1) * size});
            first += stored.heads * size;
        }
    }
}

/// Appends the rows of a weight that holds, for each key-value head, its query heads, its key and its value. `range` counts
/// queries, then keys, then values.
inline void append_grouped_rows(StoredHeads const& stored, UnitRange range, std::vector<UnitRange>& rows) {
    auto const heads = UnitSplit::qkv(stored.heads, stored.kv_heads);
    for (auto begin = range.begin; begin < range.end; begin += stored.dim) {
        auto const at = heads.grouped_head(begin / stored.dim);
        rows.push_back({at * stored.dim, (at + 1) * stored.dim});
    }
}

/// Appends the rows of a GGUF weight whose heads have the two halves of their rows in turn, for an interleaved rotation.
inline void append_turned_rows(std::int64_t dim, UnitRange range, std::vector<UnitRange>& rows) {
    for (auto row = range.begin; row < range.end; ++row) {
        auto const in_head = row % dim;
        auto const at = row - in_head + in_head % (dim / 2) * 2 + in_head / (dim / 2);
        rows.push_back({at, at + 1});
    }
}

}  // namespace detail

/// The rows of a stored weight that make the columns `ranges` of what `op` makes, in the value's order.
[[nodiscard]] inline std::vector<UnitRange> stored_rows(Operation const& op, Model const& model, bool is_gguf,
                                                        std::vector<UnitRange> const& ranges) {
    if (op.kind != OpKind::linear) return ranges;
    auto const& stored = op.stored_heads();
    std::vector<UnitRange> rows;
    switch (stored.rows) {
        case HeadRows::plain:
            return ranges;
        case HeadRows::rotated:
            if (!is_gguf || model.family == nullptr || !model.family->gguf_form.permutes_rope_rows) return ranges;
            for (auto const& range : ranges) detail::append_turned_rows(stored.dim, range, rows);
            break;
        case HeadRows::grouped:
            if (is_gguf) return ranges;
            for (auto const& range : ranges) detail::append_grouped_rows(stored, range, rows);
            break;
        case HeadRows::delta:
            if (!is_gguf) return ranges;
            for (auto const& range : ranges) detail::append_delta_rows(stored, range, rows);
            break;
    }
    return rows;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
