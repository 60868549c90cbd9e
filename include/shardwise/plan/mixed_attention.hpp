// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/cost/device_rates.hpp>
#include <shardwise/hardware/device.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a device's attention does, measured or as it is priced where it was not: the best (or worst) of all element types then.
[[nodiscard]] inline AttentionRate attention_or_price(Device const& device, AttentionRate const& of, bool is_best) {
    auto const known = attention_rate_of(device.measured.attention, of.kv, of.context);
    if (known.context > 0) return {of.kv, of.context, known.decode, known.prefill};
    AttentionRate price{of.kv, of.context, 0.0, 0.0};
    for (auto const& each : all_rates) {
        auto const rates = device_rates(device, each.dtype);
        auto const prefill = rates.products * default_efficiency.attention;
        if (price.decode == 0.0 || (rates.memory > price.decode) == is_best) price.decode = rates.memory;
        if (price.prefill == 0.0 || (prefill > price.prefill) == is_best) price.prefill = prefill;
    }
    return price;
}

/// Attention of a device that does the better (or worse) of what two do. The better one is better at every length.
[[nodiscard]] inline AttentionRates mixed_attention(Device const& a, Device const& b, bool is_better) {
    auto const& one = a.measured.attention;
    if (one == b.measured.attention) return one;
    AttentionRates mixed = one.front().context > 0 ? one : b.measured.attention;
    auto const pick = [is_better](double x, double y) { return (x > y) == is_better ? x : y; };
    for (auto& rate : mixed) {
        if (rate.context < 1) break;
        auto const first = attention_or_price(a, rate, is_better);
        auto const second = attention_or_price(b, rate, is_better);
        rate.decode = pick(first.decode, second.decode);
        rate.prefill = pick(first.prefill, second.prefill);
        for (auto const* device : {&a, &b}) {
            for (auto const& other : device->measured.attention) {
                if (!is_better || other.context < 1 || other.kv != rate.kv) continue;
                rate.decode = pick(rate.decode, other.decode);
                rate.prefill = pick(rate.prefill, other.prefill);
            }
        }
    }
    return mixed;
}

/// True where no attention of `a` is below that of `b`.
[[nodiscard]] inline bool attends_no_worse(Device const& a, Device const& b) {
    if (a.measured.attention == b.measured.attention) return true;
    for (auto const* device : {&a, &b}) {
        for (auto const& rate : device->measured.attention) {
            if (rate.context < 1) break;
            auto const own = attention_or_price(a, rate, false);
            auto const other = attention_or_price(b, rate, true);
            if (own.decode < other.decode || own.prefill < other.prefill) return false;
        }
    }
    return true;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
