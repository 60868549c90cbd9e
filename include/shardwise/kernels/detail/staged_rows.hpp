// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/kernels/detail/pack.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// Activations that a product reads four at a time, as floats, so that its inner loops do not know what they are stored in. Floats have
// kernels of their own; bfloat16 and halves share one, which reads sixteen bits and is told by its call what they are.

/// True where fours are read in one instruction.
template <class Staged>
[[nodiscard]] SHARDWISE_DEVICE bool is_on_four(Staged const* data) {
    return reinterpret_cast<std::uintptr_t>(data) % (4 * sizeof(Staged)) == 0;
}

[[nodiscard]] SHARDWISE_DEVICE inline Pack16 load_four(float const* from, RowElement) {
    return load_pack(from);
}
[[nodiscard]] SHARDWISE_DEVICE inline Pack16 load_four(std::uint16_t const* from, RowElement element) {
    float values[4];
    widen_half_pack(load_pack<HalfPack>(from), element, values);
    return narrow_pack(values);
}

[[nodiscard]] SHARDWISE_DEVICE inline float staged_value(float value, RowElement) {
    return value;
}
[[nodiscard]] SHARDWISE_DEVICE inline float staged_value(std::uint16_t bits, RowElement element) {
    return half_element_value(bits, element);
}

SHARDWISE_DEVICE inline void store_staged(float* to, float value, RowElement) {
    *to = value;
}
SHARDWISE_DEVICE inline void store_staged(std::uint16_t* to, float value, RowElement element) {
    *to = half_element_bits(value, element);
}

/// What the kernels for an element read.
template <class T>
struct StagedAs {
    using type = std::uint16_t;
};
template <>
struct StagedAs<float> {
    using type = float;
};

/// A product's results: floats where it reads floats, else of the element that its call says.
template <class Staged>
SHARDWISE_DEVICE void store_product(void* out, std::int64_t at, float value, RowElement element) {
    if constexpr (sizeof(Staged) == 4) {
        static_cast<float*>(out)[at] = value;
    } else {
        store_element(out, at, value, element);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
