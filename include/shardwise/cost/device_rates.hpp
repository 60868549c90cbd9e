#pragma once

#include <shardwise/cost/efficiency.hpp>
#include <shardwise/hardware/device.hpp>

namespace shardwise::inline v0_2_0 {

/// What a device does per second for one model, as programs reach it.
///
/// Units  floating-point operations and bytes per second
struct DeviceRates {
    /// Of products with weights, of attention, and of everything else.
    double products = 0.0;
    double attention = 0.0;
    double vectors = 0.0;
    double memory = 0.0;
    double kernel_seconds = 0.0;
    /// The width of an operand that products take as it is; narrower weights are unpacked first.
    double product_bits = 16.0;

    friend constexpr bool operator==(DeviceRates const&, DeviceRates const&) = default;
};

/// A device's rates for products with weights in `dtype`; attention takes at least 16 bits. Launches of a cpu cost
/// nothing.
[[nodiscard]] constexpr DeviceRates device_rates(Device const& device, Dtype dtype,
                                                 Efficiency const& efficiency = default_efficiency) {
    // Without a unit for 8 bits, weights become 16 bits first.
    bool const is_native = bits(dtype) >= 16 || device.peak.fp8 > 0.0;
    return {
        .products = device.peak.of(dtype) * efficiency.product,
        .attention = device.peak.of(bits(dtype) < 16 ? Dtype::bf16 : dtype) * efficiency.product * efficiency.attention,
        .vectors = device.peak.fp32 > 0.0 ? device.peak.fp32 : device.peak.of(dtype),
        .memory = device.bandwidth * efficiency.memory,
        .kernel_seconds = device.kind == DeviceKind::cpu ? 0.0 : efficiency.kernel_seconds,
        .product_bits = is_native ? static_cast<double>(bits(dtype)) : 16.0};
}

}  // namespace shardwise::inline v0_2_0
