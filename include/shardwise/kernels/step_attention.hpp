// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/cached_rows.hpp>
#include <shardwise/kernels/detail/check_step_attention.hpp>
#include <shardwise/kernels/step_rows.hpp>
#include <shardwise/kernels/step_table.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The floats that `step_attention` needs beside its tensors to split contexts: 0 where it never does. `max_keys` is the length of a
/// sequence at most. A device's is in kernels/device/step_attention.hpp.
template <class Backend>
requires std::same_as<Backend, Host>
[[nodiscard]] std::int64_t step_attention_workspace(AttentionOptions const& options, std::int64_t step_tokens,
                                                    std::int64_t, std::int64_t max_keys) {
    return std::max(attention_workspace(options, step_tokens, max_keys), attention_workspace(options, 1, max_keys));
}

namespace detail {

/// Attention of a step's rows from `first` on, as many as there are queries, of what was checked: of each sequence those that it has
/// among them.
template <CacheElement Cache>
[[nodiscard]] Result<> attend_step_rows(TensorView<float const, 2, Host> q, StepRows<Cache, Host> const& k,
                                        StepRows<Cache, Host> const& v, TensorView<float, 2, Host> out,
                                        StepTable<Host> const& table, AttentionOptions const& options,
                                        std::int64_t first, HostStream& stream, TensorView<float, 1, Host> workspace,
                                        TensorView<float const, 1, Host> sinks,
                                        TensorView<float const, 1, Host> slopes) {
    auto const& layout = table.layout();
    auto const number = [&](std::int64_t part, std::int64_t sequence) {
        return static_cast<std::int64_t>(table.data()[part + sequence]);
    };
    for (std::int64_t sequence = 0; sequence < table.sequences(); ++sequence) {
        auto const own = number(layout.first, sequence);
        auto const own_rows = number(layout.rows, sequence);
        auto const begin = std::max(first, own);
        auto const rows = std::min(first + q.extent(0), own + own_rows) - begin;
        if (rows <= 0) continue;
        bool const is_paged = k.group >= 0;
        auto const past = is_paged ? number(layout.past, sequence) : 0;
        auto const length = options.shape.is_cross ? number(layout.source, sequence) : past + own_rows;
        auto const keys_of = [&](StepRows<Cache, Host> const& from) {
            auto const scales = from.scales;
            if (!is_paged)
                return CachedRows<Cache, Host>(from.memory.rows(own, own_rows),
                                               scales.empty() ? scales : scales.rows(own, own_rows));
            auto const* const list =
                table.data() + layout.lists + (sequence * layout.groups + from.group) * layout.pages;
            auto const pages = static_cast<std::size_t>(((length - 1) >> layout.page_shift) + 1);
            return CachedRows<Cache, Host>(from.memory, std::span(list, pages), std::int64_t{1} << layout.page_shift,
                                           length, scales);
        };
        auto const needed = attention_workspace(options, rows, length);
        bool const is_split = needed > 0 && workspace.elements() >= needed;
        auto const done = attend_checked<float, Cache>(
            q.rows(begin - first, rows), keys_of(k), keys_of(v), out.rows(begin - first, rows), options,
            past + begin - own, stream, is_split ? workspace : TensorView<float, 1, Host>{}, sinks, slopes, {});
        if (!done) return done;
    }
    return {};
}

}  // namespace detail

/// Attention of all sequences of a step in one call: the bits of a call for each of them (kernels/attention.hpp). The queries of a
/// sequence follow its past, which the table says; of own rows (group -1) they are the keys from the first on; with `is_cross` they see all
/// keys of their sequence's source, in the pages of a group. Rows beyond the step's are left alone, and `first_query` is not read.
///
/// Shapes  q [tokens or more, heads * key_dim], out [tokens or more, heads * value_dim]; k and v as StepRows says; sinks and slopes
///         as of `attention`; workspace [step_attention_workspace(...)], or less: a sequence that needs more is split over fewer threads,
///         and the bits are the same
/// Memory  the table stays alive, and its step is not replaced, until it is done
/// Order   on `stream`
/// Errors  shape_mismatch, also for pages that the memory does not have; invalid_argument for a group without lists, for sources that are
///         not there, or are seen in part or by distance, and for a scale or a soft cap that is negative or no finite number; before
///         anything is computed. What the stream says of its instruction set
template <CacheElement Cache>
[[nodiscard]] Result<> step_attention(TensorView<float const, 2, Host> q, StepRows<Cache, Host> const& k,
                                      StepRows<Cache, Host> const& v, TensorView<float, 2, Host> out,
                                      StepTable<Host> const& table, AttentionOptions const& options, HostStream& stream,
                                      TensorView<float, 1, Host> workspace = {},
                                      TensorView<float const, 1, Host> sinks = {},
                                      TensorView<float const, 1, Host> slopes = {}) {
    if (auto const checked =
            detail::check_step_attention<Cache, Host>(q, k, v, out, table, options, workspace, sinks, slopes);
        !checked)
        return checked;
    return detail::attend_step_rows<Cache>(q.rows(0, table.tokens()), k, v, out.rows(0, table.tokens()), table, options,
                                           0, stream, workspace, sinks, slopes);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
