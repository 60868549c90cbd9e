// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/step_attention.cuh>

#include <algorithm>
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

template <class Api, class Staged, class Cache>
[[nodiscard]] SinglesKernel<Cache> choose_singles(StepAttentionCall<Cache> const& call, bool is_packed) {
    auto const widest = std::max(call.key_dim, call.value_dim);
    if (!is_packed || widest > 256 || !DeviceCode<Api>::has_own_warps)
        return {&attend_any<Api, Staged, Cache, true>, 1, attention_threads};
    bool const is_large = call.group > 4;
    if (widest <= 64) {
        if (is_large) return {&attend_singles<Api, Staged, Cache, 8, 1, 8>, 8, singles_threads};
        return {&attend_singles<Api, Staged, Cache, 8, 1, 4>, 4, singles_threads};
    }
    if (widest <= 128) {
        if (is_large) return {&attend_singles<Api, Staged, Cache, 16, 1, 8>, 8, singles_threads};
        return {&attend_singles<Api, Staged, Cache, 16, 1, 4>, 4, singles_threads};
    }
    return {&attend_singles<Api, Staged, Cache, 16, 2, 4>, 4, singles_threads};
}

template <class Api, class Staged, class Cache>
Result<> launch_step_attention_of(StepAttentionCall<Cache> const& call, bool has_tiles, typename Api::Stream stream) {
    using Launch = DeviceLaunch<Api>;
    constexpr std::int64_t max_blocks = 1 << 13;
    bool const has_key_eights = has_eights(call.k, call.key_dim);
    bool const has_value_eights = has_eights(call.v, call.value_dim);
    auto const singles = choose_singles<Api, Staged, Cache>(call, has_key_eights && has_value_eights);
    auto const head_tiles = call.kv_heads * ((call.group + singles.rows - 1) / singles.rows);
    auto const items = call.chunks * call.sequences * head_tiles;
    auto done = Launch::launch("attention", singles.kernel, std::min(items, max_blocks), singles.threads, stream, call);
    if (done && call.chunk != 0) {
        bool const is_packed = call.value_dim % 4 == 0 && is_on_pack(call.workspace);
        StepAttentionPlan const& plan = call;
        auto const columns = (call.value_dim + merged_columns - 1) / merged_columns;
        done = Launch::launch("attention", is_packed ? &merge_chunks<Staged, 4> : &merge_chunks<Staged, 1>,
                              std::min(call.sequences * call.heads * columns, max_blocks), attention_threads, stream,
                              plan);
    }
    if (!done || !has_tiles) return done;
    auto const launch_tiles = [&](auto kernel, int rows) {
        auto const tiles =
            first_tile(call, static_cast<std::int32_t>(call.sequences), static_cast<std::int32_t>(call.tokens), rows) +
            1;
        return Launch::launch("attention", kernel, std::min<std::int64_t>(std::int64_t{tiles} * call.kv_heads, 1 << 20),
                              attention_threads, stream, call, has_key_eights, has_value_eights);
    };
    auto const widest = std::max(call.key_dim, call.value_dim);
    if (widest <= 64) return launch_tiles(&attend_tiles<Api, Staged, Cache, 64>, tile_rows<64>);
    if (widest <= 128) return launch_tiles(&attend_tiles<Api, Staged, Cache, 128>, tile_rows<128>);
    if (widest <= 256) return launch_tiles(&attend_tiles<Api, Staged, Cache, 256>, tile_rows<256>);
    return Launch::launch("attention", &attend_any<Api, Staged, Cache, false>,
                          std::min(call.tokens * call.heads, max_blocks), attention_threads, stream, call);
}

template <class Api, class Cache>
Result<> launch_step_attention(StepAttentionCall<Cache> const& call, bool has_tiles, typename Api::Stream stream) {
    if (call.element == RowElement::f32) return launch_step_attention_of<Api, float>(call, has_tiles, stream);
    return launch_step_attention_of<Api, std::uint16_t>(call, has_tiles, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
