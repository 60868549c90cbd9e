// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/pack_dense.hpp>
#include <shardwise/backend/host/product/quant_pack.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Writes panels [first, last) of a checked source to their places in `packed`; several threads call it for ranges of one
/// weight.
inline void pack_panels(WeightSource const& source, std::byte* packed, std::int64_t first, std::int64_t last) {
    switch (source.format) {
        case WeightFormat::bf16:
            return pack_bf16_panels(source, packed, first, last);
        case WeightFormat::f16:
            return pack_f16_panels(source, packed, first, last);
        case WeightFormat::f32:
            return pack_f32_panels(source, packed, first, last);
        case WeightFormat::int8: case WeightFormat::int4: case WeightFormat::nf4: case WeightFormat::mxfp4:
        case WeightFormat::q4_0: case WeightFormat::q4_1: case WeightFormat::q5_0: case WeightFormat::q5_1:
        case WeightFormat::q8_0: case WeightFormat::q4_k: case WeightFormat::q5_k: case WeightFormat::q6_k: break;
    }
    return pack_quant_panels(source, packed, first, last);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
