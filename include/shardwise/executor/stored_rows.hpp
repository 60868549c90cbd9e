// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/model/block_program.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The attention of a body that reads a value; null where none does.
[[nodiscard]] inline Operation const* attention_that_reads(ValueId id, BlockBody const& body) {
    for (auto const& op : body.operations()) {
        if (op.kind != OpKind::attention) continue;
        for (auto const in : op.inputs) {
            if (in == id) return &op;
        }
    }
    return nullptr;
}

/// The attention that computes in the latent, where a value is what it would expand the latent to; else null.
[[nodiscard]] inline Operation const* attention_that_expands(ValueId id, BlockBody const& body) {
    auto const* const attention = attention_that_reads(id, body);
    return attention != nullptr && attention->attention.latent > 0 && attention->inputs[2] == id ? attention : nullptr;
}

/// The gated delta rule of a body that reads queries, keys, values and gates from a value; null where none does.
[[nodiscard]] inline Operation const* delta_that_reads(ValueId id, BlockBody const& body) {
    for (auto const& op : body.operations()) {
        if (op.kind == OpKind::gated_delta && op.inputs[0] == id) return &op;
    }
    return nullptr;
}

namespace detail {

/// Appends the rows of a GGUF weight that holds the queries of all key heads, then their keys, values and gates. `range` counts
/// each head's query, key, values and gates, of whole heads.
///
/// Source  llama.cpp conversion/qwen.py (Qwen3NextModel.modify_tensors)
inline void append_delta_rows(DeltaShape const& shape, UnitRange range, std::vector<UnitRange>& rows) {
    auto const width = shape.channels() + shape.value_columns();
    for (auto head = range.begin / width; head < range.end / width; ++head) {
        std::int64_t first = 0;
        for (auto const size : {shape.key_dim, shape.key_dim, shape.value_columns(), shape.value_columns()}) {
            rows.push_back({first + head * size, first + (head + 1) * size});
            first += shape.key_heads * size;
        }
    }
}

/// Appends the rows of a weight that holds, for each key-value head, its query heads, its key and its value. `range` counts
/// queries, then keys, then values.
inline void append_grouped_rows(AttentionShape const& shape, UnitRange range, std::vector<UnitRange>& rows) {
    auto const dim = shape.key_dim;
    auto const heads = UnitSplit::qkv(shape.heads, shape.kv_heads);
    for (auto begin = range.begin; begin < range.end; begin += dim) {
        auto const at = heads.grouped_head(begin / dim);
        rows.push_back({at * dim, (at + 1) * dim});
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
[[nodiscard]] inline std::vector<UnitRange> stored_rows(Operation const& op, BlockBody const& body, Model const& model,
                                                        StoredParameter const& stored, bool is_gguf,
                                                        std::vector<UnitRange> const& ranges) {
    if (auto const* const delta = is_gguf ? delta_that_reads(op.output, body) : nullptr) {
        std::vector<UnitRange> rows;
        for (auto const& range : ranges) detail::append_delta_rows(delta->delta, range, rows);
        return rows;
    }
    auto const* const attention = attention_that_reads(op.output, body);
    if (attention == nullptr) return ranges;
    auto const& shape = attention->attention;
    bool const is_fused = attention->inputs[0] == attention->inputs[1];
    bool const is_permuted = is_gguf && model.family != nullptr && model.family->gguf_form.permutes_rope_rows;
    // Heads of an odd width have no halves; their rotation is refused.
    bool const is_turned = is_permuted && !is_fused && op.output != attention->inputs[2] && shape.key_dim % 2 == 0;
    auto const& rule = stored.tensor->shard;
    // Sharded by heads in one range: each head's query, key and value lie together (gpt_neox, bloom); llama.cpp parts them.
    bool const is_grouped = is_fused && !is_gguf && (rule.kind == ShardKind::units || rule.is_grouped);
    if (!is_turned && !is_grouped) return ranges;
    std::vector<UnitRange> rows;
    for (auto const& range : ranges) {
        if (is_turned)
            detail::append_turned_rows(shape.key_dim, range, rows);
        else
            detail::append_grouped_rows(shape, range, rows);
    }
    return rows;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
