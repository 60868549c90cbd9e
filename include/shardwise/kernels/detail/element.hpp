// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/half_types.hpp>

#include <concepts>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What activations are stored in; arithmetic is done in float.
template <class T>
concept ActivationElement = std::same_as<T, float> || std::same_as<T, Bfloat16> || std::same_as<T, Float16>;

namespace detail {

/// What scales, shifts and biases of rows of T are held in on a device: T, or float.
template <class Weight, class T>
concept WeighsRows = std::same_as<Weight, T> || std::same_as<Weight, float>;

/// Rows that one thread takes at least: a thread that does less than about 16 Ki elements costs more to wake than it saves.
[[nodiscard]] constexpr std::int64_t row_grain(std::int64_t width) {
    constexpr std::int64_t elements = 16 * 1024;
    return width < 1 || width > elements ? 1 : elements / width;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
