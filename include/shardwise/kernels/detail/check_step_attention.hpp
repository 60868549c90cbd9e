// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/attention_options.hpp>
#include <shardwise/kernels/detail/check_attention.hpp>
#include <shardwise/kernels/step_rows.hpp>
#include <shardwise/kernels/step_table.hpp>
#include <shardwise/quant/half_bits.hpp>

#include <concepts>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Keys or values beside the table that says where they lie.
template <class Cache, class Backend>
[[nodiscard]] Result<> check_step_rows(StepRows<Cache, Backend> const& rows, AttentionShape const& shape,
                                       std::int64_t tokens, StepTable<Backend> const& table) {
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("attention"); };
    auto const& layout = table.layout();
    if (rows.group < -1 || rows.group >= layout.groups) {
        return Error{ErrorCode::invalid_argument}
            .in("attention")
            .at("group")
            .because("has no lists of pages, and does not stand for the step's own rows")
            .got(rows.group)
            .between(-1, layout.groups - 1);
    }
    auto const memory_rows = rows.memory.extent(0);
    if (rows.group < 0) {
        if (memory_rows < tokens)
            return refused()
                .because("there are fewer rows of keys or values than queries")
                .got(memory_rows)
                .at_least(tokens);
    } else if (auto const pages = memory_rows >> layout.page_shift; pages < table.least_pages(rows.group)) {
        return refused()
            .at("pages")
            .because("name one that the memory does not have")
            .got(table.least_pages(rows.group) - 1)
            .at_most(pages - 1);
    }
    if (!std::same_as<Cache, std::int8_t> || memory_rows == 0) return {};
    if (rows.scales.extent(1) != shape.kv_heads)
        return refused()
            .because("bytes need a scale for each key-value head")
            .got(rows.scales.extent(1))
            .expected(shape.kv_heads);
    if (rows.scales.extent(0) < memory_rows)
        return refused().because("bytes need scales for each row").got(rows.scales.extent(0)).at_least(memory_rows);
    return {};
}

/// What attention to sources does not have: rows of the step as keys, a mask, or scores by distance.
template <class Backend>
[[nodiscard]] Result<> check_sources_seen(AttentionShape const& shape, std::int64_t group, bool has_slopes,
                                          StepTable<Backend> const& table) {
    if (!shape.is_cross) return {};
    bool const is_whole =
        !shape.is_causal && shape.window == 0 && shape.chunk == 0 && shape.bias_reach == 0 && !has_slopes;
    if (group >= 0 && is_whole && table.has_sources()) return {};
    return Error{ErrorCode::invalid_argument}
        .in("attention")
        .at("is_cross")
        .because(group < 0   ? "reads sources from pages, and the keys are the step's own rows"
                 : !is_whole ? "sees all of a source, and has no mask, no window, no chunks and no scores by distance"
                             : "reads the sources of all sequences of the step, and one has none");
}

/// What queries, keys, values and output are beside a step, whatever their columns.
template <class Cache, class Backend, class T>
[[nodiscard]] Result<> check_attended_rows(TensorView<T const, 2, Backend> const& q, StepRows<Cache, Backend> const& k,
                                           StepRows<Cache, Backend> const& v, TensorView<T, 2, Backend> const& out,
                                           StepTable<Backend> const& table, AttentionShape const& shape) {
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("attention"); };
    auto const tokens = q.extent(0);
    if (tokens < table.tokens() || tokens > table.layout().max_tokens) {
        return refused()
            .because("the queries are fewer than the step's rows, or more than the table has")
            .got(tokens)
            .between(table.tokens(), table.layout().max_tokens);
    }
    if (out.extent(0) != tokens)
        return refused().because("the output needs a row per query").got(out.extent(0)).expected(tokens);
    if (v.group != k.group)
        return refused().because("keys and values are not of one group").got(v.group).expected(k.group);
    if (auto const checked = check_step_rows(k, shape, tokens, table); !checked) return checked;
    return check_step_rows(v, shape, tokens, table);
}

/// What attention over a step table refuses, on every back end.
template <class Cache, class Backend, class T>
[[nodiscard]] Result<> check_step_attention(TensorView<T const, 2, Backend> const& q, StepRows<Cache, Backend> const& k,
                                            StepRows<Cache, Backend> const& v, TensorView<T, 2, Backend> const& out,
                                            StepTable<Backend> const& table, AttentionOptions const& options,
                                            TensorView<float, 1, Backend> const& workspace,
                                            TensorView<float const, 1, Backend> const& sinks,
                                            TensorView<float const, 1, Backend> const& slopes) {
    if (auto const known =
            check_views("attention", q, k.memory, k.scales, v.memory, v.scales, out, workspace, sinks, slopes);
        !known)
        return known;
    auto const& shape = options.shape;
    if (!HasHostMemory<Backend> && std::same_as<Cache, Float16> && k.group >= 0) {
        return Error{ErrorCode::unsupported}
            .in("attention")
            .at("group")
            .because("has pages, and no cache of a device holds fp16")
            .fix("cache fp32, bf16 or int8");
    }
    auto const sized = check_attention(
        {q.extent(1), k.memory.extent(1), v.memory.extent(1), out.extent(1), sinks.elements(), slopes.elements()},
        options);
    if (!sized) return sized;
    if (auto const seen = check_sources_seen(shape, k.group, !slopes.empty(), table); !seen) return seen;
    return check_attended_rows(q, k, v, out, table, shape);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
