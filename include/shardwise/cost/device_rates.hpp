// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/cost/efficiency.hpp>
#include <shardwise/hardware/device.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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
    /// Of attention as it was measured: operations of a prompt's, and bytes of the cache that new tokens read; 0: nobody did.
    double prefill_attention = 0.0;
    double decode_attention = 0.0;

    friend constexpr bool operator==(DeviceRates const&, DeviceRates const&) = default;
};

/// What keys and values are kept in, and how many of them a sequence has.
struct CacheKind {
    Dtype kv = Dtype::f32;
    /// 0: nothing is asked of attention.
    std::int64_t context = 0;
};

/// A device's rates for products with weights in `dtype`, and for attention over `cache`; attention takes at least 16 bits. Launches of a cpu cost
/// nothing. What was measured counts as it is; the rest is the share of the peak that programs reach.
[[nodiscard]] constexpr DeviceRates device_rates(Device const& device, Dtype dtype,
                                                 Efficiency const& efficiency = default_efficiency,
                                                 CacheKind const& cache = {}) {
    auto const& measured = device.measured;
    auto const products = [&](Dtype type) {
        auto const rate = measured.products.of(type);
        return rate > 0.0 ? rate : device.peak.of(type) * efficiency.product;
    };
    auto const streamed = measured.one_row.of(dtype) > 0.0 ? measured.one_row.of(dtype) : measured.bandwidth;
    auto const launch = device.kind == DeviceKind::cpu ? 0.0 : efficiency.kernel_seconds;
    // Without a unit for 8 bits, weights become 16 bits first; a measured rate has that in it.
    bool const is_native = bits(dtype) >= 16 || device.peak.fp8 > 0.0 || measured.products.of(dtype) > 0.0;
    auto const attention =
        cache.context > 0 ? attention_rate_of(measured.attention, cache.kv, cache.context) : AttentionRate{};
    return {.products = products(dtype),
            .attention = products(bits(dtype) < 16 ? Dtype::bf16 : dtype) * efficiency.attention,
            .vectors = device.peak.fp32 > 0.0 ? device.peak.fp32 : device.peak.of(dtype),
            .memory = streamed > 0.0 ? streamed : device.bandwidth * efficiency.memory,
            .kernel_seconds = measured.launch > 0.0 ? measured.launch : launch,
            .product_bits = is_native ? static_cast<double>(bits(dtype)) : 16.0,
            .prefill_attention = attention.prefill,
            .decode_attention = attention.decode};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
