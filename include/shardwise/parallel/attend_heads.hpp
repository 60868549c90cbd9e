// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/check_attention.hpp>
#include <shardwise/kernels/detail/check_step_attention.hpp>
#include <shardwise/kernels/step_attention.hpp>
#include <shardwise/kernels/step_rows.hpp>
#include <shardwise/kernels/step_table.hpp>
#include <shardwise/op/head_share.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

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

/// The options of one run alone.
[[nodiscard]] inline AttentionOptions options_of(AttentionOptions const& whole, HeadRun const& run) {
    auto out = whole;
    out.shape.heads = run.query.size();
    out.shape.kv_heads = run.kv.size();
    return out;
}

/// Whether attend_heads takes so many columns: asked once by who calls attend_heads_bound.
///
/// Errors  as check_attention_columns
[[nodiscard]] inline Result<> check_attend_heads(AttentionColumns const& of, AttentionOptions const& options,
                                                 HeadShare const& share) {
    return check_attention_columns(of, options_of(options, {share.query, share.kv}));
}

/// attend_heads of columns that check_attend_heads has taken, of rows that are the step's, in pages that the memory has: on the host nothing
/// is checked again.
template <ComputeBackend Backend, CacheElement Cache, ActivationElement T = float>
[[nodiscard]] Result<> attend_heads_bound(TensorView<std::type_identity_t<T> const, 2, Backend> q,
                                          StepRows<Cache, Backend> const& k, StepRows<Cache, Backend> const& v,
                                          TensorView<std::type_identity_t<T>, 2, Backend> out,
                                          StepTable<Backend> const& table, AttentionOptions const& options,
                                          HeadShare const& share, typename Backend::Stream& stream,
                                          TensorView<float, 1, Backend> workspace,
                                          TensorView<float const, 1, Backend> sinks,
                                          TensorView<float const, 1, Backend> slopes) {
    auto const& shape = options.shape;
    auto const part_of = [](TensorView<float const, 1, Backend> per_head, std::int64_t first, std::int64_t count) {
        return per_head.empty() ? per_head : per_head.part(first, count);
    };
    for (auto head = share.query.begin; head < share.query.end;) {
        auto const run = head_run(share, head);
        auto const first = head - share.query.begin;
        auto const heads = run.query.size();
        auto const first_kv = run.kv.begin - share.kv.begin;
        auto const kv_heads = run.kv.size();
        auto const rows_of = [&](StepRows<Cache, Backend> const& whole, std::int64_t width) {
            auto const& scales = whole.scales;
            return StepRows<Cache, Backend>{whole.memory.columns(first_kv * width, kv_heads * width),
                                            scales.empty() ? scales : scales.columns(first_kv, kv_heads), whole.group};
        };
        auto const own_q = q.columns(first * shape.key_dim, heads * shape.key_dim);
        auto const own_out = out.columns(first * shape.value_dim, heads * shape.value_dim);
        auto const own_sinks = part_of(sinks, first, heads);
        auto const own_slopes = part_of(slopes, first * score_numbers(shape), heads * score_numbers(shape));
        auto const attend = [&] {
            if constexpr (std::same_as<Backend, Host>)
                return attend_step_rows<Cache>(own_q.rows(0, table.tokens()), rows_of(k, shape.key_dim),
                                               rows_of(v, shape.value_dim), own_out.rows(0, table.tokens()), table,
                                               options_of(options, run), 0, stream, workspace, own_sinks, own_slopes);
            else
                return step_attention<Cache>(own_q, rows_of(k, shape.key_dim), rows_of(v, shape.value_dim), own_out,
                                             table, options_of(options, run), stream, workspace, own_sinks, own_slopes);
        };
        if (auto const done = attend(); !done) return done;
        head = run.query.end;
    }
    return {};
}

}  // namespace detail

/// Floats that `attend_heads` needs beside its tensors to split a context's parts.
template <ComputeBackend Backend>
[[nodiscard]] std::int64_t attend_heads_workspace(AttentionOptions const& options, HeadShare const& share,
                                                  std::int64_t tokens, std::int64_t sequences, std::int64_t keys) {
    std::int64_t most = 0;
    for (auto head = share.query.begin; head < share.query.end;) {
        auto const run = detail::head_run(share, head);
        auto const part = detail::options_of(options, run);
        most = std::max(most, step_attention_workspace<Backend>(part, tokens, sequences, keys));
        head = run.query.end;
    }
    return most;
}

/// Attention of a rank's own heads in all sequences of a step. Where its first or last query heads are a part of a group, the kernel
/// runs for that part apart; a head's result has the same bits whoever computes it.
///
/// Shapes  `options` and `share` as of the whole model (share: head_share); q [tokens, own heads * key_dim]; k and v as StepRows says,
///         of own kv heads; out [tokens, own heads * value_dim]; workspace [attend_heads_workspace(...)] or less; sinks and slopes
///         [own heads], or empty; of biases by distance slopes [own heads, 2 * bias_reach + 1]
/// Memory  the table stays alive, and its step is not replaced, until it is done
/// Order   on `stream`
/// Errors  as step_attention
template <ComputeBackend Backend, CacheElement Cache, ActivationElement T = float>
[[nodiscard]] Result<> attend_heads(TensorView<std::type_identity_t<T> const, 2, Backend> q,
                                    StepRows<Cache, Backend> const& k, StepRows<Cache, Backend> const& v,
                                    TensorView<std::type_identity_t<T>, 2, Backend> out,
                                    StepTable<Backend> const& table, AttentionOptions const& options,
                                    HeadShare const& share, typename Backend::Stream& stream,
                                    TensorView<float, 1, Backend> workspace = {},
                                    TensorView<float const, 1, Backend> sinks = {},
                                    TensorView<float const, 1, Backend> slopes = {}) {
    auto const known =
        check_views("attend_heads", q, k.memory, k.scales, v.memory, v.scales, out, workspace, sinks, slopes);
    if (!known) return known;
    auto const fits = detail::check_attend_heads(
        {q.extent(1), k.memory.extent(1), v.memory.extent(1), out.extent(1), sinks.elements(), slopes.elements()},
        options, share);
    if (!fits) return fits;
    auto const own = detail::options_of(options, {share.query, share.kv});
    if (auto const seen = detail::check_sources_seen(own.shape, k.group, !slopes.empty(), table); !seen) return seen;
    if (auto const checked = detail::check_attended_rows(q, k, v, out, table, own.shape); !checked) return checked;
    return detail::attend_heads_bound<Backend, Cache, T>(q, k, v, out, table, options, share, stream, workspace, sinks,
                                                         slopes);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
