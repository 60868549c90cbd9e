// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/call.hpp>
#include <shardwise/comm/detail/add_floats.hpp>
#include <shardwise/comm/detail/element.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

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
    } else {
        static_assert(op == ReduceOp::sum);
        // Integers wrap like the devices' do.
        if constexpr (std::is_integral_v<T>) {
            using Unsigned = std::make_unsigned_t<T>;
            return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
        } else {
            return a + b;
        }
    }
}

/// values[i] = op(values[i], others[i]), or with the other first.
template <ReduceOp op, bool is_other_first, class T>
void reduce_into(T* values, T const* __restrict others, std::int64_t count) {
    if constexpr (op == ReduceOp::sum && std::is_same_v<T, float>) {
        // In the order of the ranks; which of two NaN is kept is up to the compiler.
        is_other_first ? add_floats(values, others, values, count) : add_floats(values, values, others, count);
    } else {
        for (std::int64_t i = 0; i < count; ++i) {
            auto const own = static_cast<Accumulator<T>>(load_element<T>(values, i));
            auto const other = static_cast<Accumulator<T>>(load_element<T>(others, i));
            store_element(values, i,
                          static_cast<T>(is_other_first ? combine<op, T>(other, own) : combine<op, T>(own, other)));
        }
    }
}

/// out[i] = op over values(rank)[i] of all ranks, in their order, rounded once.
template <ReduceOp op, class T, class Values>
void reduce_blocks(T* out, std::int64_t count, std::int32_t ranks, Values const& values) {
    // Blocks that stay in the first-level cache, so that each source is streamed once.
    constexpr std::int64_t block = 1024;
    Accumulator<T> sums[block];
    // Of data that do not begin where a T may lie.
    T aligned[block];
    for (std::int64_t begin = 0; begin < count; begin += block) {
        auto const size = count - begin < block ? count - begin : block;
        auto const bytes = static_cast<std::size_t>(size) * sizeof(T);
        for (std::int32_t peer = 0; peer < ranks; ++peer) {
            T const* theirs = values(peer) + begin;
            if (!is_aligned(theirs)) theirs = static_cast<T const*>(std::memcpy(aligned, theirs, bytes));
            for (std::int64_t i = 0; i < size; ++i) {
                auto const value = static_cast<Accumulator<T>>(theirs[i]);
                sums[i] = peer == 0 ? value : combine<op, T>(sums[i], value);
            }
        }
        T* const results = is_aligned(out) ? out + begin : aligned;
        for (std::int64_t i = 0; i < size; ++i) results[i] = static_cast<T>(sums[i]);
        if (!is_aligned(out)) std::memcpy(out + begin, aligned, bytes);
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
    auto const values = [&](std::int32_t peer) { return peer == rank ? own : theirs(peer); };
    if constexpr (op == ReduceOp::sum && std::is_same_v<T, float>) {
        if (ranks <= FloatArrays::most) {
            FloatArrays arrays;
            for (std::int32_t peer = 0; peer < ranks; ++peer) arrays.from[peer] = values(peer);
            arrays.sources = ranks;
            arrays.to[0] = out;
            arrays.targets = 1;
            return add_arrays(arrays, count);
        }
    }
    reduce_blocks<op>(out, count, ranks, values);
}

/// For two ranks: own[i] = op over both at i, in the order of the ranks; theirs[i] = next[i].
///
/// Memory  `next` overlaps neither of the others
template <ReduceOp op, class T>
void reduce_and_replace(T* own, T* theirs, T const* next, std::int64_t count, std::int32_t rank) {
    if constexpr (op == ReduceOp::sum && std::is_same_v<T, float>) {
        return rank == 0 ? add_and_replace<false>(own, theirs, next, count)
                         : add_and_replace<true>(own, theirs, next, count);
    }
    // Blocks that stay in the first-level cache.
    constexpr std::int64_t block = 4096 / sizeof(T);
    for (std::int64_t begin = 0; begin < count; begin += block) {
        auto const size = count - begin < block ? count - begin : block;
        reduce_ranks<op>(own + begin, own + begin, size, rank, 2, [&](std::int32_t) { return theirs + begin; });
        std::memcpy(theirs + begin, next + begin, static_cast<std::size_t>(size) * sizeof(T));
    }
}

/// The same where all that the ranks bring, all(r), is replaced by the results.
template <ReduceOp op, class T, class All>
void replace_by_reduced(std::int64_t count, std::int32_t ranks, All const& all) {
    if constexpr (op == ReduceOp::sum && std::is_same_v<T, float>) {
        if (ranks <= FloatArrays::most) {
            FloatArrays arrays;
            for (std::int32_t peer = 0; peer < ranks; ++peer) arrays.from[peer] = arrays.to[peer] = all(peer);
            arrays.sources = arrays.targets = ranks;
            return add_arrays(arrays, count);
        }
    }
    T* const first = all(0);
    reduce_blocks<op>(first, count, ranks, all);
    for (std::int32_t peer = 1; count > 0 && peer < ranks; ++peer) {
        std::memcpy(all(peer), first, static_cast<std::size_t>(count) * sizeof(T));
    }
}

/// Calls run.template operator()<op>() with the operation as a constant.
template <class Run>
void with_op(ReduceOp op, Run const& run) {
    switch (op) {
        case ReduceOp::sum:
            return run.template operator()<ReduceOp::sum>();
        case ReduceOp::max:
            return run.template operator()<ReduceOp::max>();
        case ReduceOp::min:
            return run.template operator()<ReduceOp::min>();
    }
}

template <class T, class Theirs>
void reduce_ranks(T* out, T const* own, std::int64_t count, std::int32_t rank, std::int32_t ranks, ReduceOp op,
                  Theirs const& theirs) {
    with_op(op, [&]<ReduceOp known>() { reduce_ranks<known>(out, own, count, rank, ranks, theirs); });
}

template <class T>
void reduce_and_replace(T* own, T* theirs, T const* next, std::int64_t count, std::int32_t rank, ReduceOp op) {
    with_op(op, [&]<ReduceOp known>() { reduce_and_replace<known>(own, theirs, next, count, rank); });
}

template <class T, class All>
void replace_by_reduced(std::int64_t count, std::int32_t ranks, ReduceOp op, All const& all) {
    with_op(op, [&]<ReduceOp known>() { replace_by_reduced<known, T>(count, ranks, all); });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
