// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/call.hpp>
#include <shardwise/comm/detail/rank_names.hpp>
#include <shardwise/core/error.hpp>

#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What one rank asks for, and where in its sequence of calls.
struct NumberedCall {
    CollectiveCall call{};
    std::uint64_t number = 0;

    friend constexpr bool operator==(NumberedCall const&, NumberedCall const&) = default;
};

/// Two ranks that ask for different things: the same words on every rank, the lower rank first.
[[nodiscard]] inline Error call_mismatch(RankNames const& names, std::int32_t low, NumberedCall const& of_low,
                                         std::int32_t high, NumberedCall const& of_high) {
    auto const text = [](NumberedCall const& each) {
        return "call " + std::to_string(each.number) + ", " + to_text(each.call);
    };
    return Error{ErrorCode::collective_mismatch}
        .in("ranks " + names.number(low) + " and " + names.number(high))
        .because("differ: rank " + std::to_string(low) + " is at " + text(of_low) + "; rank " + std::to_string(high) +
                 " at " + text(of_high))
        .fix("let all ranks call the same in the same order");
}

/// A sender and a receiver that mean different messages.
[[nodiscard]] inline Error letter_mismatch(RankNames const& names, std::int32_t from, Dtype sent_dtype,
                                           std::int64_t sent, std::int32_t to, Dtype dtype, std::int64_t count) {
    auto const text = [](Dtype type, std::int64_t elements) {
        return std::string(traits(type).short_name) + " x " + std::to_string(elements);
    };
    return Error{ErrorCode::collective_mismatch}
        .in(names.name(from))
        .because("sends " + text(sent_dtype, sent) + " where " + names.name(to) + " receives " + text(dtype, count))
        .fix("let both sides agree on type and count");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
