// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// What crosses the link between host code, which any compiler may have compiled, and kernels, which a device compiler has:
// plain values, and function templates without constraints, whose names both compilers spell alike. They are defined in
// .cuh files and instantiated by kernels/instantiate.cu.

/// out = a * b or out += a * b; a factor's element (i, j) lies at data[i * row + j * column], so a transposed one is no case.
struct GemmCall {
    struct Factor {
        void const* data;
        std::int64_t row;
        std::int64_t column;
        bool is_transposed;
    };
    Factor a;
    Factor b;
    float* out;
    std::int64_t out_row;
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
    bool accumulates;
};

/// A weight, or a range of its inputs, as it lies on a device: rows of quants, a multiple of 16 bytes apart, then the scales. A
/// whole weight's rows begin on a multiple of 16 bytes, a range's where its first input lies.
struct DeviceWeightView {
    WeightFormat format;
    std::int64_t outputs;
    std::int64_t inputs;
    std::byte const* rows;
    std::int64_t row_bytes;
    /// int8: float [outputs]; q4_0, q8_0: Float16 [outputs, inputs / 32], rows `scale_row` apart.
    std::byte const* scales;
    std::int64_t scale_row;
};

/// out[r, o] = in[r] . weight[o] for `rows` rows.
struct MultiplyCall {
    DeviceWeightView weight;
    float const* in;
    std::int64_t in_row;
    float* out;
    std::int64_t out_row;
    std::int64_t rows;
};

template <class Api, class T>
Result<> launch_gemm(GemmCall const& call, typename Api::Stream stream);

template <class Api>
Result<> launch_multiply(MultiplyCall const& call, typename Api::Stream stream);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
