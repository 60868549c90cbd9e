#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/reduce.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline v0_2_0 {

/// Gives each rank its part of the sum over all ranks, added in the order of the ranks; parts may differ in size.
///
/// Shapes  in [sum of counts], out [counts[rank]]; `counts` is the same on all ranks
/// Memory  allocates nothing; `out` may lie at its place in `in`, which keeps nothing of use else
/// Errors  shape_mismatch where counts, in and out disagree; collective_mismatch, rank_lost, deadline_exceeded
template <class T, Communicator C>
[[nodiscard]] Result<> reduce_scatter(C& comm, TensorView<T const, 1, Host> in, TensorView<T, 1, Host> out,
                                      std::span<std::int64_t const> counts, ReduceOp op = ReduceOp::sum) {
    std::int64_t total = 0;
    for (auto const count : counts) total += count;
    auto const ranks = static_cast<std::size_t>(comm.size());
    auto const rank = static_cast<std::size_t>(comm.rank());
    if (counts.size() != ranks || out.elements() != counts[rank] || in.elements() != total) {
        return Error{ErrorCode::shape_mismatch}
            .in("reduce_scatter")
            .because("counts, input and output do not agree")
            .got(in.elements())
            .expected(total)
            .fix("give one count per rank; the input holds their sum");
    }
    comm.begin({CollectiveKind::reduce_scatter, dtype_of<T>, op, -1, total});
    std::int64_t own_begin = 0;
    for (std::size_t peer = 0; peer < rank; ++peer) own_begin += counts[peer];
    auto const own_end = own_begin + counts[rank];
    auto const chunk = static_cast<std::int64_t>(comm.chunk_bytes() / sizeof(T));
    for (std::int64_t begin = 0; begin < total || begin == 0; begin += chunk) {
        auto const size = std::min(chunk, total - begin);
        if (size > 0) std::memcpy(comm.mine(), in.data() + begin, static_cast<std::size_t>(size) * sizeof(T));
        if (auto const stepped = comm.step(); !stepped) return stepped;
        auto const first = std::max(begin, own_begin);
        auto const last = std::min(begin + size, own_end);
        if (first >= last) continue;
        auto const offset = static_cast<std::size_t>(first - begin) * sizeof(T);
        detail::reduce_sources(out.data() + (first - own_begin), last - first, comm.size(), op,
                               [&](std::int32_t peer) { return comm.theirs(peer) + offset; });
    }
    return {};
}

}  // namespace shardwise::inline v0_2_0
