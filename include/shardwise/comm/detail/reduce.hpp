#pragma once

#include <shardwise/comm/call.hpp>
#include <shardwise/comm/detail/add_floats.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace shardwise::inline v0_2_0::detail {

/// Sums of 16-bit floats are made in float; everything else in its own type.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>, float, T>;

template <ReduceOp op, class T>
[[nodiscard]] constexpr Accumulator<T> combine(Accumulator<T> a, Accumulator<T> b) {
    if constexpr (op == ReduceOp::max) {
        // A NaN on any rank reaches all of them.
        return a != a || a > b ? a : b;
    } else if constexpr (op == ReduceOp::min) {
        return a != a || a < b ? a : b;
    } else if constexpr (std::is_integral_v<T>) {
        // Wraps like the devices' integers do.
        using Unsigned = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
        return a + b;
    }
}

/// values[i] = op(values[i], others[i]), or with the other first.
template <ReduceOp op, bool is_other_first, class T>
void reduce_into(T* values, T const* __restrict others, std::int64_t count) {
    if constexpr (op == ReduceOp::sum && std::is_same_v<T, float>) {
        // The order decides which of two NaN is kept.
        return is_other_first ? add_floats(values, others, values, count) : add_floats(values, values, others, count);
    }
    for (std::int64_t i = 0; i < count; ++i) {
        auto const own = static_cast<Accumulator<T>>(values[i]);
        auto const other = static_cast<Accumulator<T>>(others[i]);
        values[i] = static_cast<T>(is_other_first ? combine<op, T>(other, own) : combine<op, T>(own, other));
    }
}

/// out[i] = op over all ranks at i, in the order of the ranks, rounded once. `own` is what this rank brings, `theirs(r)` what
/// the others do.
///
/// Memory  `out` may be `own`
template <ReduceOp op, class T, class Theirs>
void reduce_ranks(T* out, T const* own, std::int64_t count, std::int32_t rank, std::int32_t ranks,
                  Theirs const& theirs) {
    if (ranks <= 2) {
        if (out != own) std::memmove(out, own, static_cast<std::size_t>(count) * sizeof(T));
        if (ranks == 1) return;
        if (rank == 0) return reduce_into<op, false>(out, theirs(1), count);
        return reduce_into<op, true>(out, theirs(0), count);
    }
    // Blocks that stay in the first-level cache, so that each source is streamed once.
    constexpr std::int64_t block = 1024;
    Accumulator<T> sums[block];
    for (std::int64_t begin = 0; begin < count; begin += block) {
        auto const size = count - begin < block ? count - begin : block;
        for (std::int32_t peer = 0; peer < ranks; ++peer) {
            T const* const values = (peer == rank ? own : theirs(peer)) + begin;
            if constexpr (std::is_same_v<T, float>) {
                if (peer > 0) {
                    reduce_into<op, false>(sums, values, size);
                    continue;
                }
            }
            for (std::int64_t i = 0; i < size; ++i) {
                auto const value = static_cast<Accumulator<T>>(values[i]);
                sums[i] = peer == 0 ? value : combine<op, T>(sums[i], value);
            }
        }
        for (std::int64_t i = 0; i < size; ++i) out[begin + i] = static_cast<T>(sums[i]);
    }
}

template <class T, class Theirs>
void reduce_ranks(T* out, T const* own, std::int64_t count, std::int32_t rank, std::int32_t ranks, ReduceOp op,
                  Theirs const& theirs) {
    switch (op) {
        case ReduceOp::sum:
            return reduce_ranks<ReduceOp::sum>(out, own, count, rank, ranks, theirs);
        case ReduceOp::max:
            return reduce_ranks<ReduceOp::max>(out, own, count, rank, ranks, theirs);
        case ReduceOp::min:
            return reduce_ranks<ReduceOp::min>(out, own, count, rank, ranks, theirs);
    }
}

}  // namespace shardwise::inline v0_2_0::detail
