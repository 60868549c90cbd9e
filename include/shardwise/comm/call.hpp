// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/fnv1a.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What ranks can do together.
enum class CollectiveKind : std::uint8_t {
    barrier,
    all_reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    all_to_all,
    split,
    send,
    receive,
    pipeline,  // the table of one, before its first step
};
inline constexpr std::size_t collective_kinds = 10;

[[nodiscard]] constexpr std::string_view name_of(CollectiveKind kind) {
    switch (kind) {
        case CollectiveKind::barrier:
            return "barrier";
        case CollectiveKind::all_reduce:
            return "all_reduce";
        case CollectiveKind::reduce_scatter:
            return "reduce_scatter";
        case CollectiveKind::all_gather:
            return "all_gather";
        case CollectiveKind::broadcast:
            return "broadcast";
        case CollectiveKind::all_to_all:
            return "all_to_all";
        case CollectiveKind::split:
            return "split";
        case CollectiveKind::send:
            return "send";
        case CollectiveKind::receive:
            return "receive";
        case CollectiveKind::pipeline:
            return "pipeline";
    }
    return "unknown";
}

/// How values of several ranks become one.
enum class ReduceOp : std::uint8_t { sum, max, min };

[[nodiscard]] constexpr std::string_view name_of(ReduceOp op) {
    switch (op) {
        case ReduceOp::sum:
            return "sum";
        case ReduceOp::max:
            return "max";
        case ReduceOp::min:
            return "min";
    }
    return "unknown";
}

/// What one rank asks of its group: all ranks must ask for the same.
struct CollectiveCall {
    CollectiveKind kind = CollectiveKind::barrier;
    Dtype dtype = Dtype::u8;
    ReduceOp op = ReduceOp::sum;
    /// -1 where the collective has none.
    std::int32_t root = -1;
    /// Elements of the whole operation; micro-batches of a pipeline.
    std::int64_t count = 0;
    /// How the elements are distributed to the ranks (fingerprint_of), 0 where the collective decides it itself; a pipeline's table.
    std::uint32_t parts = 0;

    friend constexpr bool operator==(CollectiveCall const&, CollectiveCall const&) = default;
};

/// One number for a list, such as the counts of all ranks: lists that differ have the same one by chance only, once in 4 billion.
///
/// Source  FNV-1a (core/fnv1a.hpp), a word instead of a byte at a time
[[nodiscard]] constexpr std::uint32_t fingerprint_of(std::span<std::int64_t const> counts) {
    auto print = detail::fnv1a_start;
    for (auto const count : counts) {
        print = detail::fnv1a_step(print, static_cast<std::uint64_t>(count));
        // The product carries upwards only.
        print ^= print >> 32U;
    }
    auto const folded = static_cast<std::uint32_t>(print);
    return folded == 0 ? 1 : folded;
}

/// A call as errors show it: "all_reduce sum fp32 x 4096", "broadcast fp32 x 8 root 0", "all_gather fp32 x 8 in parts 5f1b09c2",
/// "all_to_all fp32", "pipeline of 8 micro-batches, table 5f1b09c2".
[[nodiscard]] inline std::string to_text(CollectiveCall const& call) {
    auto const print = [&] {
        std::string digits;
        for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[(call.parts >> shift) & 15U];
        return digits;
    };
    std::string text(name_of(call.kind));
    if (call.kind == CollectiveKind::pipeline)
        return text + " of " + std::to_string(call.count) + " micro-batches, table " + print();
    if (call.kind == CollectiveKind::barrier || call.kind == CollectiveKind::split) return text;
    bool const reduces = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce_scatter;
    if (reduces) text += " " + std::string(name_of(call.op));
    text += " " + std::string(traits(call.dtype).short_name);
    // Each pair of ranks has a count of its own.
    if (call.kind != CollectiveKind::all_to_all) text += " x " + std::to_string(call.count);
    if (call.root >= 0) text += " root " + std::to_string(call.root);
    return call.parts == 0 ? text : text + " in parts " + print();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
