// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/kernel_list.hpp>
#include <shardwise/kernels/quantize.cuh>
#include <shardwise/quant/weight_format.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api>
Result<> launch_quantize(QuantizeCall const& call, typename Api::Stream stream) {
    // Several waves on any device; what is more runs in the kernel's loops.
    constexpr std::int64_t max_blocks = 1 << 14;
    // A team of eight reads such a span with two loads of a thread, a block with one.
    constexpr std::int64_t narrow_span = 256;
    return launch_by_format<Api>("quantize", call.format, [&](auto constant) -> Result<> {
        constexpr WeightFormat format = decltype(constant)::value;
        if constexpr (traits(format).encode == nullptr) {
            return Error{ErrorCode::unsupported}.in("quantize").at(name_of(format));
        } else {
            constexpr bool is_long = format == WeightFormat::int8 || format == WeightFormat::int4;
            auto* kernel = SHARDWISE_KERNEL(quantize_spans<Api, format, false, false>);
            if (call.is_packed) kernel = SHARDWISE_KERNEL(quantize_spans<Api, format, false, true>);
            int threads = span_threads<format, false>();
            if constexpr (is_long) {
                if (call.span > narrow_span) {
                    kernel = call.is_packed ? SHARDWISE_KERNEL(quantize_spans<Api, format, true, true>)
                                            : SHARDWISE_KERNEL(quantize_spans<Api, format, true, false>);
                    threads = span_threads<format, true>();
                }
            }
            auto const teams = std::int64_t{row_threads / threads};
            auto spread = call;
            spread.team_shift = 0;
            while ((std::int64_t{1} << spread.team_shift) < std::min(call.spans, teams)) ++spread.team_shift;
            auto const rows_at_once = teams >> spread.team_shift;
            auto const row_blocks = std::min(max_blocks, (call.rows - 1) / rows_at_once + 1);
            auto const column_blocks = ((call.spans - 1) >> spread.team_shift) + 1;
            spread.column_blocks =
                static_cast<std::uint32_t>(std::clamp<std::int64_t>(max_blocks / row_blocks, 1, column_blocks));
            return DeviceLaunch<Api>::launch("quantize", kernel, row_blocks * spread.column_blocks, row_threads, stream,
                                             spread);
        }
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
