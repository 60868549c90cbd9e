// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/attention_options.hpp>
#include <shardwise/kernels/detail/check_step_attention.hpp>
#include <shardwise/kernels/detail/step_attention_call.hpp>
#include <shardwise/kernels/device/step_table.hpp>
#include <shardwise/kernels/device/store_step.hpp>
#include <shardwise/kernels/step_rows.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/step_attention_launch.cuh. `has_tiles`: some sequences have several tokens.
template <class Api, class Cache>
Result<> launch_step_attention(StepAttentionCall<Cache> const& call, bool has_tiles, typename Api::Stream stream);

template <class Backend>
inline constexpr bool is_device_backend = false;
template <class Api>
inline constexpr bool is_device_backend<DeviceBackend<Api>> = true;

/// Parts of a context of so many keys.
[[nodiscard]] constexpr std::int64_t step_parts(std::int64_t keys) {
    return keys / step_part_keys + (keys % step_part_keys != 0 ? 1 : 0);
}
[[nodiscard]] constexpr std::int64_t step_spans(std::int64_t parts) {
    return (parts + step_span_parts - 1) / step_span_parts;
}

/// How many parts of a context a block takes, by what a workspace has memory for: 1, those of a span, or 0 for all.
[[nodiscard]] constexpr std::int32_t step_chunk(std::int64_t rows, std::int64_t parts, std::int64_t value_dim,
                                                std::int64_t floats) {
    if (parts < 2) return 0;
    if (step_workspace_floats(rows, parts, value_dim) <= floats) return 1;
    if (parts > step_span_parts && step_workspace_floats(rows, step_spans(parts), value_dim) <= floats)
        return step_span_parts;
    return 0;
}

}  // namespace detail

/// The floats that `step_attention` needs beside its tensors on a device to split contexts over blocks: those of sequences that have one
/// token in a step, whose greatest number is `max_sequences`. `max_keys` is the length of a sequence at most.
template <class Backend>
requires detail::is_device_backend<Backend>
[[nodiscard]] std::int64_t step_attention_workspace(AttentionOptions const& options, std::int64_t step_tokens,
                                                    std::int64_t max_sequences, std::int64_t max_keys) {
    // 64 MiB: where parts take more, blocks take a span's together.
    constexpr std::int64_t most = std::int64_t{1} << 24U;
    auto const& shape = options.shape;
    auto const parts = detail::step_parts(max_keys);
    if (parts < 2) return 0;
    auto const rows = std::min(step_tokens, max_sequences) * shape.heads;
    auto const all = detail::step_workspace_floats(rows, parts, shape.value_dim);
    auto const spans = detail::step_workspace_floats(rows, detail::step_spans(parts), shape.value_dim);
    return std::min(all, std::max(spans, most));
}

/// What keys and values are where activations are T: an element of a cache, or, where they are the step's own rows, T.
template <class Cache, class T>
concept DeviceKeyElement = DeviceCacheElement<Cache> || std::same_as<Cache, T>;

/// Attention of all sequences of a step in one call (kernels/step_attention.hpp). Contexts are cut into parts of 256 keys, merged eight by
/// eight: a row's bits depend on itself, its keys, whether its sequence has other rows in the step, and the kind of device; not on
/// other sequences, pages, the workspace, or which heads are computed together.
///
/// Rows beyond those that the table has when the kernels run are left alone. What was submitted for a step whose sequences have one token
/// each serves other steps of that kind when it is replayed; what was submitted for any other step serves all.
///
/// Shapes  as kernels/step_attention.hpp; workspace [step_attention_workspace(...)], or less: contexts are split over fewer blocks, and
///         the bits are the same
/// Memory  the table stays alive until it is done
/// Order   on `stream`
/// Errors  those of the host; unsupported for keys in fp16 that are not the step's own rows; size_overflow for 2^31 elements of a row,
///         or heads of tokens or of parts of contexts
/// Source  Dao et al., FlashAttention, 2022 (online softmax); Dao et al., Flash-Decoding, 2023 (split contexts)
template <class Cache, class Api, ActivationElement T>
requires DeviceKeyElement<Cache, T>
[[nodiscard]] Result<> step_attention(
    TensorView<T const, 2, DeviceBackend<Api>> q, StepRows<Cache, DeviceBackend<Api>> const& k,
    StepRows<Cache, DeviceBackend<Api>> const& v, TensorView<T, 2, DeviceBackend<Api>> out,
    StepTable<DeviceBackend<Api>> const& table, AttentionOptions const& options, DeviceStream<Api>& stream,
    TensorView<float, 1, DeviceBackend<Api>> workspace = {}, TensorView<float const, 1, DeviceBackend<Api>> sinks = {},
    TensorView<float const, 1, DeviceBackend<Api>> slopes = {}) {
    using Backend = DeviceBackend<Api>;
    if (auto const checked =
            detail::check_step_attention<Cache, Backend>(q, k, v, out, table, options, workspace, sinks, slopes);
        !checked)
        return checked;
    auto const& shape = options.shape;
    auto const& layout = table.layout();
    if (table.tokens() == 0 || shape.heads == 0 || shape.value_dim == 0) return {};
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    bool const is_paged = k.group >= 0;
    auto const sequences = std::min(q.extent(0), layout.max_sequences);
    auto const keys = is_paged ? std::min(layout.pages << layout.page_shift, most) : q.extent(0);
    auto const parts = detail::step_parts(keys);
    auto const counted = std::max(parts * sequences, q.extent(0) + sequences);
    if (std::max(q.extent(1), out.extent(1)) > most || counted > most / shape.heads) {
        return Error{ErrorCode::size_overflow}
            .in("attention")
            .because("has more heads of tokens, or of parts of contexts, than 31 bits count")
            .got(counted)
            .at_most(most / shape.heads)
            .fix("compute fewer tokens at once");
    }
    detail::StepAttentionCall<Cache> call;
    call.counts = table.data() + detail::StepLayout::counts;
    call.sequence = table.data() + layout.sequence;
    call.first = table.data() + layout.first;
    call.rows = table.data() + layout.rows;
    call.past = table.data() + (shape.is_cross ? layout.source : layout.past);
    call.pages = is_paged ? table.data() + layout.lists + k.group * layout.pages : nullptr;
    call.list = layout.groups * layout.pages;
    call.page_shift = layout.page_shift;
    call.q = q.data();
    call.q_row = q.stride(0);
    call.out = out.data();
    call.out_row = out.stride(0);
    call.sinks = sinks.empty() ? nullptr : sinks.data();
    bool const has_biases = shape.bias_reach > 0 || shape.has_rounded_slopes;
    call.slopes = slopes.empty() || has_biases ? nullptr : slopes.data();
    call.biases = slopes.empty() || !has_biases ? nullptr : slopes.data();
    auto const narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    call.heads = narrow(shape.heads);
    call.kv_heads = narrow(shape.kv_heads);
    call.group = narrow(shape.heads / shape.kv_heads);
    call.key_dim = narrow(shape.key_dim);
    call.value_dim = narrow(shape.value_dim);
    call.scale = options.scale > 0.0F ? options.scale : 1.0F / std::sqrt(static_cast<float>(shape.key_dim));
    call.soft_cap = options.soft_cap;
    // A wider window sees all that there is, and so does a longer chunk.
    call.window = shape.window > 0 && shape.window < most ? narrow(shape.window) : 0;
    call.position_chunk = shape.chunk > 0 && shape.chunk < most ? narrow(shape.chunk) : 0;
    call.bias_reach = narrow(shape.bias_reach);
    call.is_causal = shape.is_causal;
    call.own = shape.is_cross ? 0 : 1;
    call.tokens = q.extent(0);
    call.sequences = sequences;
    call.chunk = detail::step_chunk(sequences * shape.heads, parts, shape.value_dim, workspace.elements());
    call.chunks = call.chunk == 0 ? 1 : narrow((parts + call.chunk - 1) / call.chunk);
    call.workspace = workspace.data();
    call.element = detail::row_element<T>;
    auto const rows_of = [](StepRows<Cache, Backend> const& rows) {
        return detail::StepRowsCall<Cache>{rows.memory.data(), rows.memory.stride(0), rows.scales.data(),
                                           rows.scales.stride(0)};
    };
    call.k = rows_of(k);
    call.v = rows_of(v);
    bool const has_tiles = table.tokens() > table.sequences();
    stream.submit([&](typename Api::Stream native) {
        return detail::launch_step_attention<Api, Cache>(call, has_tiles, native);
    });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
