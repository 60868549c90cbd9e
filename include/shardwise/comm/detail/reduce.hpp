#pragma once

#include <shardwise/comm/call.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace shardwise::inline v0_2_0::detail {

/// Sums of 16-bit floats are made in float; everything else in its own type.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>, float, T>;

template <class T>
[[nodiscard]] constexpr Accumulator<T> combine(Accumulator<T> a, Accumulator<T> b, ReduceOp op) {
    switch (op) {
        case ReduceOp::sum:
            if constexpr (std::is_integral_v<T>) {
                // Wraps like the devices' integers do.
                using Unsigned = std::make_unsigned_t<T>;
                return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
            } else {
                return a + b;
            }
        // A NaN on any rank reaches all of them.
        case ReduceOp::max:
            return a != a || a > b ? a : b;
        case ReduceOp::min:
            return a != a || a < b ? a : b;
    }
    return a;
}

/// out[i] = op over all sources at i, in the order of the sources; one rounding at the end for 16-bit floats.
///
/// Memory  sources need not be aligned; `out` may be one of them
template <class T, class Source>
void reduce_sources(T* out, std::int64_t count, std::int32_t sources, ReduceOp op, Source const& source) {
    // Blocks that stay in the first-level cache, so that each source is streamed once.
    constexpr std::int64_t block = 1024;
    Accumulator<T> sums[block];
    T values[block];
    for (std::int64_t begin = 0; begin < count; begin += block) {
        auto const size = count - begin < block ? count - begin : block;
        for (std::int32_t rank = 0; rank < sources; ++rank) {
            std::memcpy(values, source(rank) + static_cast<std::size_t>(begin) * sizeof(T),
                        static_cast<std::size_t>(size) * sizeof(T));
            for (std::int64_t i = 0; i < size; ++i) {
                auto const value = static_cast<Accumulator<T>>(values[i]);
                sums[i] = rank == 0 ? value : combine<T>(sums[i], value, op);
            }
        }
        for (std::int64_t i = 0; i < size; ++i) out[begin + i] = static_cast<T>(sums[i]);
    }
}

}  // namespace shardwise::inline v0_2_0::detail
