// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/backend/host/packed_weight.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What `Backend::hold_weight` holds of a weight of these extents.
///
/// Errors  size_overflow; unsupported for a format that the back end does not multiply by
template <ComputeBackend Backend>
[[nodiscard]] Result<Bytes> held_weight_bytes(WeightFormat format, std::int64_t outputs, std::int64_t inputs,
                                              std::int64_t group) {
    Error const overflow = Error{ErrorCode::size_overflow}.in("weight").got(outputs);
    if constexpr (HasHostMemory<Backend>) {
        auto const bytes = packed_weight_bytes(format, outputs, inputs, group);
        if (!bytes) return overflow;
        return *bytes;
    } else {
        auto const layout = detail::device_row_layout(format, inputs);
        if (!layout) {
            return Error{ErrorCode::unsupported}
                .in(Backend::name)
                .at(name_of(format))
                .because("is no format that this back end multiplies by")
                .fix("decode the weights into bf16 or fp32 (--dtype), or run this model on the host");
        }
        auto const row = checked_add(layout->row_bytes(), layout->scale_bytes);
        auto const bytes = row ? checked_multiply(outputs, *row) : row;
        if (!bytes) return overflow;
        return Bytes{*bytes};
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
