// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

// Device code reads this: no other standard header.

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The formats in which a back end multiplies by a weight without decoding all of it first.
enum class WeightFormat : std::uint8_t {
    f32,
    bf16,
    f16,
    int8,   // a scale per row (bitsandbytes, --quant int8)
    int4,   // ours: scale * (q - 8), a scale per group of a row
    nf4,    // bitsandbytes: a code table, an absmax per 64 elements of the flattened matrix
    mxfp4,  // OCP MX: E2M1 with a power of two per 32
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q8_0,
    q4_k,
    q5_k,
    q6_k,
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
