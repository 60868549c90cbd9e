#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/op/head_share.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// Attention of a rank's own heads. Where its first or last query heads are a part of a group, the kernel runs for that part
/// apart; a head's result has the same bits whoever computes it.
///
/// Shapes  `options` and `share` as of the whole model (share: head_share); q [queries, own heads * key_dim],
///         k [keys, own kv heads * key_dim], v [keys, own kv heads * value_dim], out [queries, own heads * value_dim];
///         workspace attention_workspace(...) of the own heads, or empty; sinks and slopes [own heads], or empty
/// Order   on `stream`
/// Errors  shape_mismatch
template <ComputeBackend Backend, class Cache>
[[nodiscard]] Result<> attend_heads(TensorView<float const, 2, Backend> q, TensorView<Cache const, 2, Backend> k,
                                    TensorView<Cache const, 2, Backend> v, TensorView<float, 2, Backend> out,
                                    AttentionOptions const& options, HeadShare const& share,
                                    typename Backend::Stream& stream, TensorView<float, 1, Backend> workspace = {},
                                    TensorView<float const, 1, Backend> sinks = {},
                                    TensorView<float const, 1, Backend> slopes = {}) {
    auto const& shape = options.shape;
    Error error{ErrorCode::shape_mismatch};
    error.in("attend_heads");
    if (q.extent(1) != share.query.size() * shape.key_dim || out.extent(1) != share.query.size() * shape.value_dim)
        return error.because("queries or output are not as wide as this rank's heads")
            .got(q.extent(1))
            .expected(share.query.size() * shape.key_dim);
    if (k.extent(1) != share.kv.size() * shape.key_dim || v.extent(1) != share.kv.size() * shape.value_dim)
        return error.because("keys or values are not as wide as this rank's heads")
            .got(k.extent(1))
            .expected(share.kv.size() * shape.key_dim);
    auto const part_of = [](TensorView<float const, 1, Backend> per_head, std::int64_t first, std::int64_t count) {
        return per_head.empty() ? per_head : per_head.part(first, count);
    };
    for (auto head = share.query.begin; head < share.query.end;) {
        // Up to the end of a group, or as many whole groups as there are.
        auto const group_end = (head / share.group + 1) * share.group;
        auto const whole_groups_end = share.query.end - share.query.end % share.group;
        bool const is_at_group = head % share.group == 0 && whole_groups_end > head;
        auto const end = is_at_group ? whole_groups_end : std::min(group_end, share.query.end);
        auto const first = head - share.query.begin;
        auto const heads = end - head;
        auto const first_kv = head / share.group - share.kv.begin;
        auto const kv_heads = (end - 1) / share.group + 1 - head / share.group;
        auto part = options;
        part.shape.heads = heads;
        part.shape.kv_heads = kv_heads;
        auto const done = attention(q.columns(first * shape.key_dim, heads * shape.key_dim),
                                    k.columns(first_kv * shape.key_dim, kv_heads * shape.key_dim),
                                    v.columns(first_kv * shape.value_dim, kv_heads * shape.value_dim),
                                    out.columns(first * shape.value_dim, heads * shape.value_dim), part, stream,
                                    workspace, part_of(sinks, first, heads), part_of(slopes, first, heads));
        if (!done) return done;
        head = end;
    }
    return {};
}

}  // namespace shardwise::inline v0_2_0
