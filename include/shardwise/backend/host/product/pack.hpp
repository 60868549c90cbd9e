// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/backend/host/product/quant_pack.hpp>
#include <shardwise/backend/weight_source.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Writes panels [first, last) of a checked source to their places in `packed`; several threads call it for ranges of one
/// weight.
inline void pack_panels(WeightSource const& source, std::byte* packed, std::int64_t first, std::int64_t last) {
    auto const& row = host_format(source.format);
    if (row.product == HostProduct::elements) return row.pack(source, packed, first, last);
    return pack_quant_panels(source, packed, first, last);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
