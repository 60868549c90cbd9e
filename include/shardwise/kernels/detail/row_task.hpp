// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/operation.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The addends of a sum over ranks, in rank order.
template <class T>
struct SumParts {
    T const* const* parts;
    std::int64_t count;
};

/// The same with memory of its own, as tasks of a stream need it.
template <class T, std::size_t most>
struct Addends {
    T const* parts[most] = {};

    explicit Addends(std::span<T const* const> from) {
        for (std::size_t i = 0; i < from.size() && i < most; ++i) parts[i] = from[i];
    }
};

/// Whether an activation is computed by lanes; the others call the C library for each element.
[[nodiscard]] constexpr bool has_lanes(ActivationKind kind) {
    return kind != ActivationKind::gelu && kind != ActivationKind::tanh && kind != ActivationKind::xielu;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
