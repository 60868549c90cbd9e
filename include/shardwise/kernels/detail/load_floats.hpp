// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/kernels/detail/pack.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Neighbours of a row of activations as floats. Where there are several they are a pack's, or half a pack's.
template <class T, unsigned width>
SHARDWISE_DEVICE void load_floats(T const* from, float (&values)[width]) {
    constexpr unsigned pack = pack_elements<T>;
    if constexpr (width == 1) {
        values[0] = widen(*from);
    } else if constexpr (width < pack) {
        static_assert(2 * width == pack, "half a pack is the least that is loaded at once");
        auto const half = load_pack<HalfPack>(from);
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < width; ++i) {
            T element;
            element.bits = static_cast<std::uint16_t>(half.words[i / 2] >> (16 * (i % 2)));
            values[i] = widen(element);
        }
    } else {
        SHARDWISE_DEVICE_UNROLL
        for (unsigned part = 0; part < width / pack; ++part) {
            Portion<T, pack> portion;
            float some[pack];
            portion.load(from + pack * part);
            portion.get(some);
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < pack; ++i) values[pack * part + i] = some[i];
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
