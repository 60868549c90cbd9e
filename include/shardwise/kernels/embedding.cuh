// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/device_chunk.hpp>
#include <shardwise/kernels/detail/embedding_call.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A thread decodes a chunk of sixteen bytes at a time.
template <WeightFormat format>
__global__ void __launch_bounds__(row_threads, 2) decode_table_rows(WeightRowsCall call, PortionGrid grid) {
    using Chunk = DeviceChunk<format>;
    __shared__ float codes[16];
    if constexpr (Chunk::has_codes) {
        if (threadIdx.x < 16) Chunk::fill_codes(codes, static_cast<int>(threadIdx.x));
        __syncthreads();
    }
    auto const width = call.table.inputs;
    for_portions<static_cast<unsigned>(Chunk::elements)>(
        grid, call.tokens, width, [&](std::int64_t token, std::int64_t at) {
            auto const row = (call.ids != nullptr ? std::int64_t{call.ids[token]} : token) - call.first_row;
            bool const is_there = row >= 0 && row < call.table.outputs;
            auto const chunk = at / Chunk::elements;
            Pack16 pack{};
            typename Chunk::Rest rest{};
            auto row_scale = 0.0F;
            if (is_there) {
                // A whole weight's rows are whole packs.
                pack = load_pack(call.table.rows + row * call.table.row_bytes + chunk * 16);
                rest = Chunk::load_rest(call.table, row, chunk);
                row_scale = Chunk::row_scale(call.table, row);
            }
            auto const first = token * call.out_row + at;
            bool const is_wide = call.element == RowElement::f32;
            auto* const out = static_cast<std::byte*>(call.out) + first * (is_wide ? 4 : 2);
            // Four floats, or four halves of half as many bytes.
            bool const is_whole =
                at + Chunk::elements <= width && reinterpret_cast<std::uintptr_t>(out) % (is_wide ? 16 : 8) == 0;
            SHARDWISE_DEVICE_UNROLL
            for (int four = 0; four < Chunk::elements / 4; ++four) {
                float values[4];
                decode_elements<format>(pack, rest, four, codes, values);
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < 4; ++i) values[i] = is_there ? values[i] * row_scale : 0.0F;
                if (is_whole && is_wide) {
                    store_pack(out + 16 * four, narrow_pack(values));
                } else if (is_whole) {
                    store_pack(out + 8 * four, half_pack(values, call.element));
                } else {
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < 4; ++i) {
                        if (at + 4 * four + i < width)
                            store_element(call.out, first + 4 * four + i, values[i], call.element);
                    }
                }
            }
        });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
