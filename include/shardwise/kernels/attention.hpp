// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/attention_options.hpp>
#include <shardwise/kernels/cached_rows.hpp>
#include <shardwise/kernels/detail/attention_task.hpp>
#include <shardwise/kernels/detail/check_attention.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes.hpp>
#include <shardwise/kernels/detail/thread_array.hpp>
#include <shardwise/op/operation.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The floats that `attention` needs beside its tensors to split the parts of a context over threads; 0 where queries and heads are
/// enough of them.
[[nodiscard]] inline std::int64_t attention_workspace(AttentionOptions const& options, std::int64_t queries,
                                                      std::int64_t keys) {
    detail::AttentionCut const cut(options.shape, queries, keys, options.shape.kv_heads);
    constexpr std::int64_t enough_tiles = 64;
    if (cut.parts < 2 || cut.tiles() >= enough_tiles) return 0;
    return queries * options.shape.heads * cut.parts * (options.shape.value_dim + 2);
}

namespace detail {

/// Floats of a thread's scratch that lie on its stack: those of steps of few tokens, whose tiles have few rows.
inline constexpr std::int64_t attention_stack = std::int64_t{40} * 1024;

/// One attention of the host: its cut and where rows are finished.
template <class T, class Cache>
struct HostAttention {
    using Attend = void (*)(AttentionTask<T, Cache> const&, AttentionTile const&, std::int64_t, AttentionScratch,
                            AttentionSums const&);

    AttentionTask<T, Cache> task;
    AttentionCut cut;
    Attend attend;
    TensorView<T, 2, Host> out;
    float const* sinks;
    TensorView<float, 2, Host> log_sums;

    void finish(std::int64_t query, std::int64_t head, AttentionRow row) const {
        if (sinks != nullptr) row.add_sink(sinks[head]);
        if (!log_sums.empty()) log_sums.row(query)[head] = row.log_sum();
        row.finish(out.row(query) + head * task.shape.value_dim);
    }
    /// The parts that any row of a tile sees.
    [[nodiscard]] KeyRange parts_of(AttentionTile const& tile) const {
        auto const first = task.keys_of(tile.first_query);
        auto const last = task.keys_of(tile.first_query + tile.queries - 1);
        return {std::min(first.begin, task.k.count()) / attention_part_keys,
                std::min(cut.parts, ceil_divide(last.end, attention_part_keys))};
    }

    /// Tiles [begin, end) of all key-value heads, each over its whole context.
    void attend_tiles(std::int64_t begin, std::int64_t end) const {
        auto const width = task.shape.value_dim;
        auto const rows = cut.max_rows(task.q.extent(0));
        auto const needed = AttentionScratch::floats(task.shape, rows);
        ThreadArray<float, attention_stack> memory(needed + 2 * rows * (width + 1));
        AttentionScratch const scratch(memory.data(), task.shape, rows);
        auto* const whole = memory.data() + needed;
        auto* const values = whole + rows * width;
        AttentionSums const sums{values, values + rows * width, values + rows * (width + 1)};
        AttentionRow totals[attention_tile_rows];
        for (auto item = begin; item < end; ++item) {
            auto const tile = cut.tile(task.shape, task.q.extent(0), item);
            for (std::int64_t row = 0; row < tile.rows(); ++row) {
                totals[row] = {whole + row * width, width};
                std::fill_n(whole + row * width, width, 0.0F);
            }
            auto const parts = parts_of(tile);
            for (auto part = parts.begin; part < parts.end; ++part) {
                attend(task, tile, part, scratch, sums);
                for (std::int64_t row = 0; row < tile.rows(); ++row) {
                    totals[row].merge(values + row * width, sums.greatest[row], sums.weights[row]);
                }
            }
            for (std::int64_t row = 0; row < tile.rows(); ++row) {
                finish(tile.query_of(row), tile.head_of(row), totals[row]);
            }
        }
    }

    /// Where the sums of a tile and a part lie in a workspace.
    [[nodiscard]] AttentionSums sums_at(float* workspace, AttentionTile const& tile, std::int64_t part) const {
        auto const width = task.shape.value_dim;
        auto const rows = task.q.extent(0) * task.shape.heads;
        // Tiles one after another: queries of one tile, then its heads, then the rest of the head's queries.
        auto const in_group = tile.first_head - tile.kv_head * tile.group;
        auto const row =
            tile.kv_head * tile.group * task.q.extent(0) + tile.first_query * tile.group + in_group * tile.queries;
        auto* const values = workspace + (part * rows + row) * width;
        auto* const greatest = workspace + cut.parts * rows * width + (part * rows + row) * 2;
        return {values, greatest, greatest + tile.rows()};
    }
    /// The parts that any query sees.
    [[nodiscard]] KeyRange seen_parts() const {
        AttentionTile all;
        all.queries = task.q.extent(0);
        auto const parts = parts_of(all);
        return {parts.begin, std::max(parts.begin, parts.end)};
    }
    /// Pieces [begin, end): all tiles with each of the parts that are seen.
    void attend_pieces(std::int64_t begin, std::int64_t end, KeyRange seen, float* workspace) const {
        auto const rows = cut.max_rows(task.q.extent(0));
        ThreadArray<float, attention_stack> memory(AttentionScratch::floats(task.shape, rows));
        AttentionScratch const scratch(memory.data(), task.shape, rows);
        for (auto item = begin; item < end; ++item) {
            auto const [tile, part] = cut.piece(task.shape, task.q.extent(0), seen, item);
            attend(task, tile, part, scratch, sums_at(workspace, tile, part));
        }
    }
    void merge_parts(std::int64_t begin, std::int64_t end, float* workspace) const {
        auto const width = task.shape.value_dim;
        ThreadArray<float, 512> whole(width);
        for (auto item = begin; item < end; ++item) {
            auto const tile = cut.tile(task.shape, task.q.extent(0), item);
            auto const parts = parts_of(tile);
            for (std::int64_t row = 0; row < tile.rows(); ++row) {
                AttentionRow total{whole.data(), width};
                std::fill_n(whole.data(), width, 0.0F);
                for (auto part = parts.begin; part < parts.end; ++part) {
                    auto const sums = sums_at(workspace, tile, part);
                    total.merge(sums.values + row * width, sums.greatest[row], sums.weights[row]);
                }
                finish(tile.query_of(row), tile.head_of(row), total);
            }
        }
    }
};

/// `attention` of what was checked. `workspace` is empty where parts of a context are not split over threads.
template <ActivationElement T, CacheElement Cache>
[[nodiscard]] Result<> attend_checked(TensorView<T const, 2, Host> q, CachedRows<Cache, Host> const& k,
                                      CachedRows<Cache, Host> const& v, TensorView<T, 2, Host> out,
                                      AttentionOptions const& options, std::int64_t first_query, HostStream& stream,
                                      TensorView<float, 1, Host> workspace, TensorView<float const, 1, Host> sinks,
                                      TensorView<float const, 1, Host> slopes, TensorView<float, 2, Host> log_sums) {
    auto const& shape = options.shape;
    auto const queries = q.extent(0);
    auto const keys = k.count();
    if (queries == 0 || shape.heads == 0) return {};
    if (!stream.isa()) return stream.isa().error();
    auto const attend = choose_kernel<typename HostAttention<T, Cache>::Attend>(
        *stream.isa(), SHARDWISE_KERNEL_LEVELS(attend<T, Cache>));

    bool const splits = !workspace.empty();
    HostAttention<T, Cache> const host{
        {q, k, v, shape, options.scale, options.soft_cap, first_query, slopes.empty() ? nullptr : slopes.data()},
        AttentionCut(shape, queries, keys, splits ? 1 : stream.threads()),
        attend,
        out,
        sinks.empty() ? nullptr : sinks.data(),
        log_sums};
    auto const tiles = host.cut.tiles();
    if (!splits) {
        Host::launch(
            tiles, [=](std::int64_t begin, std::int64_t end) { host.attend_tiles(begin, end); }, stream);
        return {};
    }
    auto* const memory = workspace.data();
    auto const seen = host.seen_parts();
    Host::launch(
        tiles * (seen.end - seen.begin),
        [=](std::int64_t begin, std::int64_t end) { host.attend_pieces(begin, end, seen, memory); }, stream);
    Host::launch(
        tiles, [=](std::int64_t begin, std::int64_t end) { host.merge_parts(begin, end, memory); }, stream);
    return {};
}

}  // namespace detail

/// out = softmax(q k^T * scale) v for one sequence, never holding more scores than one part of the context has.
///
/// Each head's context is cut into parts of 256 keys, whatever the number of threads, and the parts are merged in order: the
/// bits of a query's result depend on its own row, the keys it sees and the instruction set, not on who computes beside it, nor on
/// the pages in which keys lie.
///
/// Shapes  q [queries, heads * key_dim], k [keys, kv_heads * key_dim], v [keys, kv_heads * value_dim], of bytes a scale per key
///         and key-value head; out [queries, heads * value_dim]; sinks [heads] or empty: a score without a value (gpt_oss); slopes [heads] or
///         empty: ALiBi's, times the distance, or with a bias_reach [heads, 2 * bias_reach + 1]: what a score gains by the offset of
///         its key; workspace [attention_workspace(...)] or empty: then queries and heads alone are
///         split over threads; log_sums [queries, heads] or empty: log(the sum of exp(score), a sink's too), which attention_backward
///         reads; minus infinity where a query sees no key
/// Memory  each thread's scratch, of a tile of 64 rows at most by 256 keys, lies on its stack, or is allocated where it has more than
///         160 KiB: nothing grows with queries or keys
/// Order   on `stream`
/// Errors  shape_mismatch, also for pages that the memory does not have; invalid_argument for a first query that is not among the
///         keys, and for a scale or a soft cap that is negative or no finite number; what the
///         stream says of its instruction set
/// Source  Dao et al., FlashAttention, 2022 (online softmax); Press et al., ALiBi, 2021
template <ActivationElement T, CacheElement Cache>
[[nodiscard]] Result<> attention(TensorView<T const, 2, Host> q, CachedRows<Cache, Host> const& k,
                                 CachedRows<Cache, Host> const& v, TensorView<T, 2, Host> out,
                                 AttentionOptions const& options, HostStream& stream,
                                 TensorView<float, 1, Host> workspace = {}, TensorView<float const, 1, Host> sinks = {},
                                 TensorView<float const, 1, Host> slopes = {},
                                 TensorView<float, 2, Host> log_sums = {}) {
    if (auto const known = check_views("attention", q, k.memory(), k.scales(), v.memory(), v.scales(), out, workspace,
                                       sinks, slopes, log_sums);
        !known)
        return known;
    auto const& shape = options.shape;
    auto const queries = q.extent(0);
    auto const keys = k.count();
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("attention"); };
    auto const differs = [&](std::string_view reason, std::int64_t got, std::int64_t expected) {
        return refused().because(reason).got(got).expected(expected);
    };
    if (out.extent(0) != queries) return differs("the output needs a row per query", out.extent(0), queries);
    auto const sized = detail::check_attention(
        {q.extent(1), k.width(), v.width(), out.extent(1), sinks.elements(), slopes.elements()}, options);
    if (!sized) return sized;
    if (v.count() != keys) return differs("there are not as many values as keys", v.count(), keys);
    for (auto const* const rows : {&k, &v}) {
        if (auto const checked = rows->check("attention"); !checked) return checked;
        if (!std::same_as<Cache, std::int8_t> || keys == 0) continue;
        auto const& scales = rows->scales();
        if (scales.extent(1) != shape.kv_heads)
            return differs("bytes need a scale for each key-value head", scales.extent(1), shape.kv_heads);
        if (scales.extent(0) < rows->memory_rows())
            return refused()
                .because("bytes need scales for each row")
                .got(scales.extent(0))
                .at_least(rows->memory_rows());
    }
    if (!log_sums.empty() && (log_sums.extent(0) != queries || log_sums.extent(1) != shape.heads))
        return differs("each query and head needs a log-sum", log_sums.elements(), queries * shape.heads);
    auto const needed = attention_workspace(options, queries, keys);
    if (!workspace.empty() && workspace.elements() < needed)
        return refused().because("the workspace is too small").got(workspace.elements()).at_least(needed);
    // A causal query is one of the keys; queries that see all of them may be more.
    auto const last_first = shape.is_causal ? keys - queries : keys;
    auto const first_query =
        options.first_query.value_or(shape.is_causal ? last_first : std::max<std::int64_t>(keys - queries, 0));
    if (keys > 0 && (first_query < 0 || first_query > last_first)) {
        return Error{ErrorCode::invalid_argument}
            .in("attention")
            .at("first_query")
            .because("is not a position at which the queries are keys")
            .got(first_query)
            .between(0, last_first)
            .fix("give the number of keys before the first query, at most keys - queries");
    }

    bool const splits = !workspace.empty() && needed > 0;
    return detail::attend_checked(q, k, v, out, options, first_query, stream,
                                  splits ? workspace : TensorView<float, 1, Host>{}, sinks, slopes, log_sums);
}

/// The same for keys and values in one piece.
template <ActivationElement T, ActivationElement Cache>
[[nodiscard]] Result<> attention(TensorView<T const, 2, Host> q, TensorView<Cache const, 2, Host> k,
                                 TensorView<Cache const, 2, Host> v, TensorView<T, 2, Host> out,
                                 AttentionOptions const& options, HostStream& stream,
                                 TensorView<float, 1, Host> workspace = {}, TensorView<float const, 1, Host> sinks = {},
                                 TensorView<float const, 1, Host> slopes = {},
                                 TensorView<float, 2, Host> log_sums = {}) {
    return attention<T, Cache>(q, CachedRows<Cache, Host>(k), CachedRows<Cache, Host>(v), out, options, stream,
                               workspace, sinks, slopes, log_sums);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
