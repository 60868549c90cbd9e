// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/kernels/device/rms_norm.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int rms_norm_threads = 256;

/// The sum over a row, in all threads of the block, of the squares of its elements times `unit`.
template <class Api, class T>
__device__ float row_squares(T const* in, std::int64_t width, float unit) {
    float squares = 0.0F;
    for (std::int64_t i = threadIdx.x; i < width; i += rms_norm_threads) {
        auto const value = widen(in[i]) * unit;
        squares += value * value;
    }
    return block_sum<Api, rms_norm_threads>(squares);
}

/// A block takes a row at a time.
template <class Api, class T>
__global__ void __launch_bounds__(rms_norm_threads) normalise_rows(RmsNormCall<T> call) {
    // Squares below the first are not normal floats, or their sum lost some that are not; above the second lies infinity.
    constexpr float small = 0x1p-100F;
    constexpr float large = 0x1p127F;
    for (std::int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
        auto const* const in = call.in + row * call.in_row;
        auto* const out = call.out + row * call.out_row;
        auto const width = static_cast<float>(call.width);
        float unit = 1.0F;
        auto mean = row_squares<Api>(in, call.width, unit) / width + call.epsilon;
        // The same for all threads of the block. Powers of two: elements times them keep their digits.
        if (!(mean >= small && mean < large)) {
            unit = mean < small ? 0x1p100F : 0x1p-100F;
            mean = row_squares<Api>(in, call.width, unit) / width + call.epsilon * unit * unit;
        }
        auto const scale = 1.0F / sqrtf(mean);
        // Each thread writes what it alone has read, so that `out` may be `in`.
        for (std::int64_t i = threadIdx.x; i < call.width; i += rms_norm_threads) {
            narrow(widen(in[i]) * unit * scale * (widen(call.weight[i]) + call.offset), out[i]);
        }
    }
}

template <class Api, class T>
Result<> launch_rms_norm(RmsNormCall<T> const& call, typename Api::Stream stream) {
    constexpr std::int64_t most_blocks = 1 << 16;
    return DeviceCode<Api>::launch("rms_norm", &normalise_rows<Api, T>,
                                   call.rows < most_blocks ? call.rows : most_blocks, rms_norm_threads, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
