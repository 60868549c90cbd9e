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

/// The format in which `Backend::hold_weight` holds a weight whose rows have so many inputs: of groups that devices do not read, the
/// values.
template <ComputeBackend Backend>
[[nodiscard]] constexpr WeightFormat format_held(WeightFormat format, std::int64_t inputs, std::int64_t group) {
    bool const is_grouped = !HasHostMemory<Backend> && traits(format).scales == ScalePlace::group;
    return is_grouped && detail::device_group(inputs, group) == 0 ? WeightFormat::f32 : format;
}

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
        if (!has_device_products(format)) {
            return Error{ErrorCode::unsupported}
                .in(Backend::name)
                .at(name_of(format))
                .because("is no format that this back end multiplies by")
                .fix("decode the weights into bf16 or fp32 (--dtype), or run this model on the host");
        }
        auto const held = format_held<Backend>(format, inputs, group);
        bool const is_grouped = traits(held).scales == ScalePlace::group;
        auto const shared = is_grouped ? detail::device_group(inputs, group) : 32;
        if (inputs > (std::int64_t{1} << 40U) || !checked_multiply(outputs, 8 * inputs)) return overflow;
        return Bytes{detail::device_row_layout(held, inputs, shared).held_bytes(outputs)};
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
