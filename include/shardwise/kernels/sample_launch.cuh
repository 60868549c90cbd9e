// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/sample.cuh>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api>
Result<> launch_sample(SampleCall const& call, typename Api::Stream stream) {
    constexpr std::int32_t max_blocks = 1 << 14;
    constexpr unsigned pack = pack_elements<float>;
    bool const is_packed = has_packs(call.logits, call.rows, call.logits_row, call.tokens);
    return DeviceLaunch<Api>::launch("sample",
                                     is_packed ? SHARDWISE_KERNEL(sample_rows<pack>) : SHARDWISE_KERNEL(sample_rows<1>),
                                     std::min(call.rows, max_blocks), sample_threads, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
