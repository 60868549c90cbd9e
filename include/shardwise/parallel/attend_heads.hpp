// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/cached_rows.hpp>
#include <shardwise/op/head_share.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Query heads that the kernel takes at once: whole groups, or a part of one.
struct HeadRun {
    UnitRange query;
    UnitRange kv;
};

/// The run of a rank's heads that begins at `head`: as many whole groups as there are, else up to the end of its group.
[[nodiscard]] constexpr HeadRun head_run(HeadShare const& share, std::int64_t head) {
    auto const whole_groups_end = share.query.end - share.query.end % share.group;
    bool const is_at_group = head % share.group == 0 && whole_groups_end > head;
    auto const group_end = (head / share.group + 1) * share.group;
    auto const end = is_at_group ? whole_groups_end : std::min(group_end, share.query.end);
    return {{head, end}, {head / share.group, (end - 1) / share.group + 1}};
}

}  // namespace detail

/// Floats that `attend_heads` needs beside its tensors to split a context's parts over threads.
[[nodiscard]] inline std::int64_t attend_heads_workspace(AttentionOptions const& options, HeadShare const& share,
                                                         std::int64_t queries, std::int64_t keys) {
    std::int64_t most = 0;
    for (auto head = share.query.begin; head < share.query.end;) {
        auto const run = detail::head_run(share, head);
        auto part = options;
        part.shape.heads = run.query.size();
        part.shape.kv_heads = run.kv.size();
        most = std::max(most, attention_workspace(part, queries, keys));
        head = run.query.end;
    }
    return most;
}

/// Attention of a rank's own heads. Where its first or last query heads are a part of a group, the kernel runs for that part
/// apart; a head's result has the same bits whoever computes it.
///
/// Shapes  `options` and `share` as of the whole model (share: head_share); q [queries, own heads * key_dim],
///         k [keys, own kv heads * key_dim], v [keys, own kv heads * value_dim], out [queries, own heads * value_dim];
///         workspace [attend_heads_workspace(...)] or empty; sinks and slopes [own heads], or empty; of biases by distance
///         slopes [own heads, 2 * bias_reach + 1]
/// Order   on `stream`
/// Errors  shape_mismatch
template <ComputeBackend Backend, CacheElement Cache>
[[nodiscard]] Result<> attend_heads(TensorView<float const, 2, Backend> q, CachedRows<Cache, Backend> const& k,
                                    CachedRows<Cache, Backend> const& v, TensorView<float, 2, Backend> out,
                                    AttentionOptions const& options, HeadShare const& share,
                                    typename Backend::Stream& stream, TensorView<float, 1, Backend> workspace = {},
                                    TensorView<float const, 1, Backend> sinks = {},
                                    TensorView<float const, 1, Backend> slopes = {}) {
    if (auto const known = check_views("attend_heads", q, k.memory(), v.memory(), out, workspace, sinks, slopes);
        !known)
        return known;
    auto const& shape = options.shape;
    Error error{ErrorCode::shape_mismatch};
    error.in("attend_heads");
    if (q.extent(1) != share.query.size() * shape.key_dim || out.extent(1) != share.query.size() * shape.value_dim)
        return error.because("queries or output are not as wide as this rank's heads")
            .got(q.extent(1))
            .expected(share.query.size() * shape.key_dim);
    if (k.width() != share.kv.size() * shape.key_dim || v.width() != share.kv.size() * shape.value_dim)
        return error.because("keys or values are not as wide as this rank's heads")
            .got(k.width())
            .expected(share.kv.size() * shape.key_dim);
    auto const part_of = [](TensorView<float const, 1, Backend> per_head, std::int64_t first, std::int64_t count) {
        return per_head.empty() ? per_head : per_head.part(first, count);
    };
    for (auto head = share.query.begin; head < share.query.end;) {
        auto const run = detail::head_run(share, head);
        auto const first = head - share.query.begin;
        auto const heads = run.query.size();
        auto const first_kv = run.kv.begin - share.kv.begin;
        auto const kv_heads = run.kv.size();
        auto part = options;
        part.shape.heads = heads;
        part.shape.kv_heads = kv_heads;
        auto const done =
            attention(q.columns(first * shape.key_dim, heads * shape.key_dim),
                      k.columns(first_kv * shape.key_dim, kv_heads * shape.key_dim, first_kv, kv_heads),
                      v.columns(first_kv * shape.value_dim, kv_heads * shape.value_dim, first_kv, kv_heads),
                      out.columns(first * shape.value_dim, heads * shape.value_dim), part, stream, workspace,
                      part_of(sinks, first, heads),
                      part_of(slopes, first * score_numbers(shape), heads * score_numbers(shape)));
        if (!done) return done;
        head = run.query.end;
    }
    return {};
}

/// The same for keys and values in one piece.
template <ComputeBackend Backend, ActivationElement Cache>
[[nodiscard]] Result<> attend_heads(TensorView<float const, 2, Backend> q, TensorView<Cache const, 2, Backend> k,
                                    TensorView<Cache const, 2, Backend> v, TensorView<float, 2, Backend> out,
                                    AttentionOptions const& options, HeadShare const& share,
                                    typename Backend::Stream& stream, TensorView<float, 1, Backend> workspace = {},
                                    TensorView<float const, 1, Backend> sinks = {},
                                    TensorView<float const, 1, Backend> slopes = {}) {
    return attend_heads<Backend, Cache>(q, CachedRows<Cache, Backend>(k), CachedRows<Cache, Backend>(v), out, options,
                                        share, stream, workspace, sinks, slopes);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
