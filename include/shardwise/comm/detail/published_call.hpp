// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/call.hpp>
#include <shardwise/comm/detail/call_mismatch.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A numbered call in as few words as fit into the line that a rank publishes its steps in. Of the number there are the
/// lower 32 bits: ranks whose numbers differ by multiples of 4 billion do not occur.
struct PublishedCall {
    std::uint64_t count = 0;
    /// The root, and in the upper half the parts.
    std::uint64_t shape = 0;
    /// The number, and in the upper half the kind, the type and the operation, a byte each.
    std::uint64_t name = 0;

    PublishedCall() = default;
    explicit PublishedCall(NumberedCall const& from)
        : count(static_cast<std::uint64_t>(from.call.count)),
          shape(static_cast<std::uint32_t>(from.call.root) | std::uint64_t{from.call.parts} << 32U),
          name(static_cast<std::uint32_t>(from.number) | static_cast<std::uint64_t>(from.call.kind) << 32U |
               static_cast<std::uint64_t>(from.call.dtype) << 40U | static_cast<std::uint64_t>(from.call.op) << 48U) {}

    /// The call with its whole number, which is near `known`.
    [[nodiscard]] NumberedCall near(std::uint64_t known) const {
        auto const ahead = static_cast<std::int32_t>(static_cast<std::uint32_t>(name - known));
        CollectiveCall call;
        call.kind = static_cast<CollectiveKind>(name >> 32U & 0xFFU);
        call.dtype = static_cast<Dtype>(name >> 40U & 0xFFU);
        call.op = static_cast<ReduceOp>(name >> 48U & 0xFFU);
        call.root = static_cast<std::int32_t>(static_cast<std::uint32_t>(shape));
        call.count = static_cast<std::int64_t>(count);
        call.parts = static_cast<std::uint32_t>(shape >> 32U);
        return {call, known + static_cast<std::uint64_t>(std::int64_t{ahead})};
    }

    friend bool operator==(PublishedCall const& a, PublishedCall const& b) {
        return ((a.count ^ b.count) | (a.shape ^ b.shape) | (a.name ^ b.name)) == 0;
    }
};
static_assert(sizeof(PublishedCall) == 24);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
