// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/kernel_list.hpp>
#include <shardwise/kernels/step_attention.cuh>

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// True where rows are made of eights that a thread loads at once.
template <class Cache>
[[nodiscard]] bool has_eights(StepRowsCall<Cache> const& rows, std::int64_t dim) {
    auto const size = static_cast<std::int64_t>(sizeof(Cache));
    return dim % 8 == 0 && reinterpret_cast<std::uintptr_t>(rows.data) % Eight<Cache>::align == 0 &&
           rows.row * size % Eight<Cache>::align == 0;
}

/// The kernel for single tokens, and how many heads a block of it computes at once.
template <class Cache>
struct SinglesKernel {
    void (*kernel)(StepAttentionCall<Cache>);
    std::int64_t rows;
    int threads;
};

/// Halves, which no cache holds, are the step's own rows: of a single token one key.
template <class Cache>
inline constexpr bool is_cached = !std::same_as<Cache, Float16>;

template <class Api, class Staged, class Cache, int heads>
[[nodiscard]] SinglesKernel<Cache> choose_singles(StepAttentionCall<Cache> const& call, bool is_packed) {
    if constexpr (heads != 0 && is_cached<Cache>) {
        constexpr int lanes = heads == 64 ? 8 : 16;
        if (is_packed && DeviceCode<Api>::has_own_warps) {
            if constexpr (heads == 256) {
                return {SHARDWISE_KERNEL(attend_singles<Api, Staged, Cache, lanes, 2, 4>), 4, singles_threads};
            } else {
                if (call.group > 4)
                    return {SHARDWISE_KERNEL(attend_singles<Api, Staged, Cache, lanes, 1, 8>), 8, singles_threads};
                return {SHARDWISE_KERNEL(attend_singles<Api, Staged, Cache, lanes, 1, 4>), 4, singles_threads};
            }
        }
    }
    return {SHARDWISE_KERNEL(attend_any<Api, Staged, Cache, true>), 1, attention_threads};
}

/// `heads`: the width that the kernels are made for, 0 where they take any.
template <class Api, class Staged, int heads, class Cache>
Result<> launch_step_attention_of(StepAttentionCall<Cache> const& call, bool has_tiles, typename Api::Stream stream) {
    using Launch = DeviceLaunch<Api>;
    constexpr std::int64_t max_blocks = 1 << 13;
    bool const has_key_eights = has_eights(call.k, call.key_dim);
    bool const has_value_eights = has_eights(call.v, call.value_dim);
    auto const singles = choose_singles<Api, Staged, Cache, heads>(call, has_key_eights && has_value_eights);
    auto const head_tiles = call.kv_heads * ((call.group + singles.rows - 1) / singles.rows);
    auto const items = call.chunks * call.sequences * head_tiles;
    auto done = Launch::launch("attention", singles.kernel, std::min(items, max_blocks), singles.threads, stream, call);
    if (done && call.chunk != 0) {
        bool const is_packed = call.value_dim % 4 == 0 && is_on_pack(call.workspace);
        StepAttentionPlan const& plan = call;
        auto const columns = (call.value_dim + merged_columns - 1) / merged_columns;
        done = Launch::launch(
            "attention",
            is_packed ? SHARDWISE_KERNEL(merge_chunks<Staged, 4>) : SHARDWISE_KERNEL(merge_chunks<Staged, 1>),
            std::min(call.sequences * call.heads * columns, max_blocks), attention_threads, stream, plan);
    }
    if (!done || !has_tiles) return done;
    if constexpr (heads != 0) {
        auto const tiles = first_tile(call, static_cast<std::int32_t>(call.sequences),
                                      static_cast<std::int32_t>(call.tokens), tile_rows<heads>) +
                           1;
        return Launch::launch("attention", SHARDWISE_KERNEL(attend_tiles<Api, Staged, Cache, heads>),
                              std::min<std::int64_t>(std::int64_t{tiles} * call.kv_heads, 1 << 20), attention_threads,
                              stream, call, has_key_eights, has_value_eights);
    } else {
        return Launch::launch("attention", SHARDWISE_KERNEL(attend_any<Api, Staged, Cache, false>),
                              std::min(call.tokens * call.heads, max_blocks), attention_threads, stream, call);
    }
}

template <class Api, int heads, class Cache>
Result<> launch_step_attention_by(StepAttentionCall<Cache> const& call, bool has_tiles, typename Api::Stream stream) {
    if constexpr (heads != 0 && !kernel_list<Api>.has_heads(heads)) {
        return left_out("attention", heads_name(heads));
    } else if constexpr (is_cached<Cache>) {
        return launch_by_element<Api>("attention", call.element, [&](auto element) -> Result<> {
            return launch_step_attention_of<Api, decltype(element), heads>(call, has_tiles, stream);
        });
    } else if constexpr (kernel_list<Api>.has(RowElement::f16)) {
        return launch_step_attention_of<Api, std::uint16_t, heads>(call, has_tiles, stream);
    } else {
        return left_out("attention", element_name(RowElement::f16));
    }
}

template <class Api, class Cache>
Result<> launch_step_attention(StepAttentionCall<Cache> const& call, bool has_tiles, typename Api::Stream stream) {
    auto const widest = std::max(call.key_dim, call.value_dim);
    if (widest <= 64) return launch_step_attention_by<Api, 64>(call, has_tiles, stream);
    if (widest <= 128) return launch_step_attention_by<Api, 128>(call, has_tiles, stream);
    if (widest <= 256) return launch_step_attention_by<Api, 256>(call, has_tiles, stream);
    return launch_step_attention_by<Api, 0>(call, has_tiles, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
