// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/unfused.hpp>
#include <shardwise/kernels/cached_rows.hpp>
#include <shardwise/core/scalar_math.hpp>
#include <shardwise/op/operation.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Keys of one part of a context: enough that merging costs little, few enough that a short context still has parts for
/// several threads.
inline constexpr std::int64_t attention_part_keys = 256;
/// Rows (a query and a head each) that are computed together at most: each key that is brought into the cache meets them all.
inline constexpr std::int64_t attention_tile_rows = 64;

/// Rows of a key-value head up to which keys are read as they lie; of more rows each key is turned once for all of them.
inline constexpr std::int64_t attention_few_rows = 8;

/// Keys from `begin` up to, without, `end`.
struct KeyRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// The tensors of an attention and what its scores are made by.
template <class T, class Cache>
struct AttentionTask {
    TensorView<T const, 2, Host> q;
    CachedRows<Cache, Host> k;
    CachedRows<Cache, Host> v;
    AttentionShape shape;
    float scale;
    float soft_cap;
    std::int64_t first_query;
    /// Of each head its slope, or with a bias_reach its bias for each offset of a key from -bias_reach on.
    float const* slopes;

    /// The keys that a query sees.
    [[nodiscard]] KeyRange keys_of(std::int64_t query) const {
        auto const position = first_query + query;
        KeyRange range{0, k.count()};
        if (shape.is_causal) range.end = std::min(range.end, position + 1);
        if (shape.window > 0) {
            // Windows may be as wide as numbers go: nothing is added to one.
            if (shape.window <= position) range.begin = position - shape.window + 1;
            if (!shape.is_causal && shape.window < range.end - position) range.end = position + shape.window;
        }
        if (shape.chunk > 0) range.begin = std::max(range.begin, position / shape.chunk * shape.chunk);
        range.end = std::max(range.begin, range.end);
        return range;
    }
};

/// The rows of some neighbouring queries and some heads of one group, which share keys and values; where they are few, of several
/// neighbouring key-value heads. Rows are in the order of key-value heads, queries, heads.
struct AttentionTile {
    std::int64_t kv_head = 0;
    std::int64_t kv_heads = 1;
    std::int64_t first_query = 0;
    std::int64_t queries = 0;
    std::int64_t first_head = 0;
    std::int64_t heads = 0;
    /// Heads of a key-value head.
    std::int64_t group = 0;

    [[nodiscard]] std::int64_t rows() const { return kv_heads * queries * heads; }
    [[nodiscard]] std::int64_t query_of(std::int64_t row) const { return first_query + row / heads % queries; }
    [[nodiscard]] std::int64_t head_of(std::int64_t row) const {
        return first_head + row / (queries * heads) * group + row % heads;
    }
};

/// A tile and a part of the context, attended at once.
struct AttentionPiece {
    AttentionTile tile;
    std::int64_t part = 0;
};

/// How the work is cut: key-value heads, tiles of rows for each, and parts of the context. It changes no result.
struct AttentionCut {
    std::int64_t kv_chunk = 1;
    std::int64_t kv_chunks = 0;
    std::int64_t head_tiles = 0;
    std::int64_t tile_heads = 0;
    std::int64_t query_tiles = 0;
    std::int64_t tile_queries = 0;
    std::int64_t parts = 0;

    /// `shares`: into how many pieces at least the key-value heads are to be cut, where they can.
    AttentionCut(AttentionShape const& shape, std::int64_t queries, std::int64_t keys, std::int64_t shares) {
        auto const kv_heads = std::max<std::int64_t>(1, shape.kv_heads);
        auto const group = shape.heads / kv_heads;
        tile_heads = std::clamp<std::int64_t>(group, 1, attention_tile_rows);
        head_tiles = ceil_divide(group, tile_heads);
        tile_queries = std::max<std::int64_t>(1, attention_tile_rows / tile_heads);
        query_tiles = ceil_divide(queries, tile_queries);
        parts = ceil_divide(keys, attention_part_keys);
        auto const rows = queries * group;
        if (rows > 0 && rows <= attention_few_rows) {
            kv_chunk = std::min(attention_tile_rows / rows, ceil_divide(kv_heads, std::max<std::int64_t>(1, shares)));
        }
        kv_chunks = ceil_divide(kv_heads, kv_chunk);
    }
    [[nodiscard]] std::int64_t tiles() const { return kv_chunks * head_tiles * query_tiles; }
    /// Rows of a tile of `queries` queries at most.
    [[nodiscard]] std::int64_t max_rows(std::int64_t queries) const {
        return kv_chunk * std::min(tile_queries, queries) * tile_heads;
    }
    /// Early queries see few keys: the first, the last, the second, ... have the same work in each half.
    [[nodiscard]] AttentionTile tile(AttentionShape const& shape, std::int64_t queries, std::int64_t index) const {
        auto const per_chunk = head_tiles * query_tiles;
        auto const turn = index % per_chunk / head_tiles;
        auto const query_tile = turn % 2 == 0 ? turn / 2 : query_tiles - 1 - turn / 2;
        AttentionTile tile;
        tile.group = shape.heads / shape.kv_heads;
        tile.kv_head = index / per_chunk * kv_chunk;
        tile.kv_heads = std::min(kv_chunk, shape.kv_heads - tile.kv_head);
        tile.first_query = query_tile * tile_queries;
        tile.queries = std::min(tile_queries, queries - tile.first_query);
        auto const first = index % head_tiles * tile_heads;
        tile.first_head = tile.kv_head * tile.group + first;
        tile.heads = std::min(tile_heads, tile.group - first);
        return tile;
    }
    /// The pieces of all tiles and some parts, each half of them with the same work. Of few queries the tiles of a part
    /// stand side by side, which is how memory lies; of more the parts of a tile, since early queries see few parts.
    [[nodiscard]] AttentionPiece piece(AttentionShape const& shape, std::int64_t queries, KeyRange seen,
                                       std::int64_t index) const {
        if (query_tiles == 1) return {tile(shape, queries, index % tiles()), seen.begin + index / tiles()};
        auto const count = seen.end - seen.begin;
        return {tile(shape, queries, index / count), seen.begin + index % count};
    }
};

/// Memory of one thread: a tile's queries, its scores, some keys turned into columns.
struct AttentionScratch {
    float* queries = nullptr;
    float* scores = nullptr;
    float* keys = nullptr;

    /// Room for tiles of so many rows at the widest level: keys in steps of 64.
    [[nodiscard]] static std::int64_t floats(AttentionShape const& shape, std::int64_t rows) {
        return rows * shape.key_dim + rows * attention_part_keys + 64 * shape.key_dim;
    }
    AttentionScratch(float* memory, AttentionShape const& shape, std::int64_t rows)
        : queries(memory), scores(queries + rows * shape.key_dim), keys(scores + rows * attention_part_keys) {}
};

/// What a part of the context adds to each row of a tile.
struct AttentionSums {
    /// [rows, value_dim], relative to the greatest score.
    float* values;
    /// [rows]
    float* greatest;
    float* weights;
};

SHARDWISE_UNFUSED_BEGIN

/// The softmax-weighted sum of some keys' values, still relative to the greatest of their scores.
struct AttentionRow {
    float* values;
    std::int64_t width;
    float greatest = -std::numeric_limits<float>::infinity();
    /// The sum of the weights exp(score - greatest).
    float weights = 0.0F;

    [[nodiscard]] static float exponential(float x) {
        return static_cast<float>(exponential_of(static_cast<double>(x)));
    }
    /// Takes in the keys after these.
    void merge(float const* other, float other_greatest, float other_weights) {
        if (other_weights == 0.0F) return;
        auto const together = std::max(greatest, other_greatest);
        auto const own = weights == 0.0F ? 0.0F : exponential(greatest - together);
        auto const theirs = exponential(other_greatest - together);
        weights = weights * own + other_weights * theirs;
        for (std::int64_t i = 0; i < width; ++i) values[i] = values[i] * own + other[i] * theirs;
        greatest = together;
    }
    /// A score that draws weight to itself and has no value.
    void add_sink(float score) {
        if (score == -std::numeric_limits<float>::infinity()) return;
        auto const together = std::max(greatest, score);
        auto const own = weights == 0.0F ? 0.0F : exponential(greatest - together);
        weights = weights * own + exponential(score - together);
        for (std::int64_t i = 0; i < width; ++i) values[i] *= own;
        greatest = together;
    }
    /// log(the sum of exp(score)); minus infinity where no key has weight.
    [[nodiscard]] float log_sum() const {
        if (weights == 0.0F) return -std::numeric_limits<float>::infinity();
        return static_cast<float>(static_cast<double>(greatest) + logarithm_of(static_cast<double>(weights)));
    }
    /// The mean; zeros where no key has weight.
    template <class T>
    void finish(T* out) const {
        auto const scale = weights == 0.0F ? 0.0F : 1.0F / weights;
        for (std::int64_t i = 0; i < width; ++i) out[i] = T(values[i] * scale);
    }
};

SHARDWISE_UNFUSED_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
