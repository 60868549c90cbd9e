// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A weight as a checkpoint stores it, before a back end brings it into its own order. The view owns nothing.
///
/// Shapes  outputs x inputs: a row of `data` makes one output
///         f32, bf16, f16: data [outputs, inputs]
///         int8: data [outputs, inputs], scales float [outputs]: scale * q
///         int4: data [outputs, ceil(inputs / 2)] (encode_int4_row), scales Float16 [outputs, ceil(inputs / group)]
///         nf4: data [outputs * inputs / 2] (high half first), scales float, one per 64 elements of the flattened matrix;
///              inputs is a multiple of 64
///         mxfp4: data [outputs, inputs / 32, 16] (as gpt-oss's blocks, not as GGUF's: the element 2i in the low half of
///              byte i), scales E8M0 bytes [outputs, inputs / 32]
///         q*: data is rows of whole GGUF blocks, scales inside
struct WeightSource {
    WeightFormat format = WeightFormat::f32;
    std::int64_t outputs = 0;
    std::int64_t inputs = 0;
    std::span<std::byte const> data;
    std::span<std::byte const> scales;
    /// int4 only: elements of a row that share a scale.
    std::int64_t group = 0;
    /// True where `data` and `scales` are pages of a mapped file, or of memory that nobody reads again. They go back to the system
    /// as they are read, so that a process does not hold a weight twice.
    bool is_mapped = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
