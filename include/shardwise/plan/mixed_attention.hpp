// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/cost/device_rates.hpp>
#include <shardwise/hardware/device.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What attention is priced by where it was not measured: the worst and the best of all element types of weights.
struct PricedAttention {
    AttentionRate worst{};
    AttentionRate best{};

    explicit PricedAttention(Device const& device) {
        bool is_first = true;
        for (auto const& each : all_rates) {
            auto const rates = device_rates(device, each.dtype);
            auto const prefill = rates.products * default_efficiency.attention;
            if (is_first || rates.memory < worst.decode) worst.decode = rates.memory;
            if (is_first || prefill < worst.prefill) worst.prefill = prefill;
            if (is_first || rates.memory > best.decode) best.decode = rates.memory;
            if (is_first || prefill > best.prefill) best.prefill = prefill;
            is_first = false;
        }
    }
};

inline constexpr double AttentionRate::*attention_fields[] = {&AttentionRate::decode, &AttentionRate::prefill};

/// Every element type and length that either of two devices was measured with, in order.
[[nodiscard]] inline List<AttentionRate> attention_lengths(Device const& a, Device const& b) {
    List<AttentionRate> all;
    for (auto const* device : {&a, &b}) {
        for (auto const& rate : device->measured.attention) {
            if (rate.context < 1) break;
            auto place = all.size();
            while (place > 0 && (all[place - 1].kv > rate.kv ||
                                 (all[place - 1].kv == rate.kv && all[place - 1].context > rate.context)))
                --place;
            bool const is_known = place > 0 && all[place - 1].kv == rate.kv && all[place - 1].context == rate.context;
            if (!is_known) (void)all.insert(all.begin() + place, AttentionRate{rate.kv, rate.context, 0.0, 0.0});
        }
    }
    return all;
}

/// Attention that is better than either device's at every length: one rate for each element type.
[[nodiscard]] inline AttentionRates better_attention(Device const& a, Device const& b) {
    AttentionRates mixed{};
    std::size_t count = 0;
    for (auto const& length : attention_lengths(a, b)) {
        if (count > 0 && mixed[count - 1].kv == length.kv) continue;
        auto& rate = mixed[count++] = {length.kv, 1, 0.0, 0.0};
        for (auto const* device : {&a, &b}) {
            AttentionRate best;
            for (auto const& own : device->measured.attention) {
                if (own.context < 1 || own.kv != rate.kv) continue;
                for (auto const field : attention_fields) {
                    if (own.*field > best.*field) best.*field = own.*field;
                }
            }
            for (auto const field : attention_fields) {
                if (best.*field == 0.0) best.*field = PricedAttention(*device).best.*field;
                if (best.*field > rate.*field) rate.*field = best.*field;
            }
        }
    }
    return mixed;
}

/// Attention that is no better than either device's at any length. A rate of 0 is priced as if it was not measured: where one
/// device's is, and the other's was measured and is no worse than that.
class WorseAttention {
public:
    WorseAttention(Device const& a, Device const& b) : first_(a), second_(b), rates_(attention_lengths(a, b)) {
        for (auto& rate : rates_) {
            auto const one = attention_rate_of(a.measured.attention, rate.kv, rate.context);
            auto const other = attention_rate_of(b.measured.attention, rate.kv, rate.context);
            for (auto const field : attention_fields) {
                bool const is_one_priced = one.*field == 0.0;
                bool const is_other_priced = other.*field == 0.0;
                if (is_one_priced && is_other_priced) continue;
                if (is_one_priced)
                    rate.*field = worse(other.*field, first_, field);
                else if (is_other_priced)
                    rate.*field = worse(one.*field, second_, field);
                else
                    rate.*field = one.*field < other.*field ? one.*field : other.*field;
            }
        }
    }

    /// Where there are more lengths than places, neighbours become one with the worse of both rates: those that lose
    /// the least by it. A cache has fewer element types than there are places, so that some neighbours are of one type.
    [[nodiscard]] AttentionRates rates() {
        AttentionRates result{};
        while (rates_.size() > result.size()) join_nearest();
        for (std::size_t i = 0; i < rates_.size(); ++i) result[i] = rates_[i];
        return result;
    }

private:
    using Field = double AttentionRate::*;

    /// What is no better than a measured rate and what a device is priced by. A price of 0 is that of a device without
    /// a bandwidth or peak, which says nothing.
    static double worse(double measured, PricedAttention const& priced, Field field) {
        if (priced.best.*field == 0.0) return measured;
        if (measured >= priced.best.*field) return 0.0;
        return measured < priced.worst.*field ? measured : priced.worst.*field;
    }

    AttentionRate joined(AttentionRate const& one, AttentionRate const& next) const {
        auto both = one;
        for (auto const field : attention_fields) {
            auto const low = one.*field < next.*field ? one.*field : next.*field;
            auto const high = one.*field < next.*field ? next.*field : one.*field;
            // One of them is priced: by the mixed device's own rates, which are the worse of both.
            both.*field = low > 0.0 || high == 0.0 ? low : worst_price(high, field);
        }
        return both;
    }
    double worst_price(double measured, Field field) const {
        for (auto const* priced : {&first_, &second_}) {
            auto const price = priced->worst.*field;
            if (price > 0.0 && price < measured) measured = price;
        }
        return measured;
    }
    /// By how much two neighbours differ: the higher of a rate as a multiple of the lower.
    static double difference(AttentionRate const& one, AttentionRate const& next) {
        auto most = 1.0;
        for (auto const field : attention_fields) {
            auto const low = one.*field < next.*field ? one.*field : next.*field;
            auto const high = one.*field < next.*field ? next.*field : one.*field;
            auto const ratio = high == low ? 1.0 : (low > 0.0 ? high / low : 1e300);
            if (ratio > most) most = ratio;
        }
        return most;
    }
    void join_nearest() {
        std::size_t nearest = 0;
        auto least = 0.0;
        for (std::size_t i = 1; i < rates_.size(); ++i) {
            if (rates_[i].kv != rates_[i - 1].kv) continue;
            auto const own = difference(rates_[i - 1], rates_[i]);
            if (nearest != 0 && own >= least) continue;
            nearest = i;
            least = own;
        }
        // More element types than a cache can have.
        if (nearest == 0) return rates_.pop_back();
        rates_[nearest - 1] = joined(rates_[nearest - 1], rates_[nearest]);
        rates_.erase(rates_.begin() + nearest);
    }

    PricedAttention first_;
    PricedAttention second_;
    List<AttentionRate> rates_;
};

/// Attention of a device that does the better (or worse) of what two do. The better one is better at every length.
[[nodiscard]] inline AttentionRates mixed_attention(Device const& a, Device const& b, bool is_better) {
    if (a.measured.attention == b.measured.attention) return a.measured.attention;
    return is_better ? better_attention(a, b) : WorseAttention(a, b).rates();
}

/// True where no attention of `a` is below that of `b`.
[[nodiscard]] inline bool attends_no_worse(Device const& a, Device const& b) {
    if (a.measured.attention == b.measured.attention) return true;
    PricedAttention const own_price(a);
    PricedAttention const other_price(b);
    for (auto const& length : attention_lengths(a, b)) {
        auto const own = attention_rate_of(a.measured.attention, length.kv, length.context);
        auto const other = attention_rate_of(b.measured.attention, length.kv, length.context);
        for (auto const field : attention_fields) {
            // Where both are priced, it is by rates that are compared beside these.
            if (own.*field == 0.0 && other.*field == 0.0) continue;
            auto const one = own.*field > 0.0 ? own.*field : own_price.worst.*field;
            auto const two = other.*field > 0.0 ? other.*field : other_price.best.*field;
            if (one < two) return false;
        }
    }
    return true;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
