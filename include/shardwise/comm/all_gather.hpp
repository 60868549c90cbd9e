#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline v0_2_0 {

/// Gives every rank the parts of all ranks, one behind another; parts may differ in size.
///
/// Shapes  in [counts[rank]], out [sum of counts]; `counts` is the same on all ranks
/// Memory  allocates nothing; `in` may lie at its place in `out`
/// Errors  shape_mismatch where counts, in and out disagree; collective_mismatch, rank_lost, deadline_exceeded
template <class T, Communicator C>
[[nodiscard]] Result<> all_gather(C& comm, TensorView<T const, 1, Host> in, TensorView<T, 1, Host> out,
                                  std::span<std::int64_t const> counts) {
    std::int64_t total = 0;
    std::int64_t longest = 0;
    for (auto const count : counts) total += count, longest = std::max(longest, count);
    auto const ranks = static_cast<std::size_t>(comm.size());
    auto const rank = static_cast<std::size_t>(comm.rank());
    if (counts.size() != ranks || in.elements() != counts[rank] || out.elements() != total) {
        return Error{ErrorCode::shape_mismatch}
            .in("all_gather")
            .because("counts, input and output do not agree")
            .got(out.elements())
            .expected(total)
            .fix("give one count per rank; the output holds their sum");
    }
    comm.begin({CollectiveKind::all_gather, dtype_of<T>, ReduceOp::sum, -1, total});
    auto const chunk = static_cast<std::int64_t>(comm.chunk_bytes() / sizeof(T));
    auto const piece = [&](std::int64_t count, std::int64_t begin) {
        return static_cast<std::size_t>(std::clamp(count - begin, std::int64_t{0}, chunk)) * sizeof(T);
    };
    for (std::int64_t begin = 0; begin < longest || begin == 0; begin += chunk) {
        if (auto const bytes = piece(counts[rank], begin); bytes > 0)
            std::memcpy(comm.mine(), in.data() + begin, bytes);
        if (auto const stepped = comm.step(); !stepped) return stepped;
        std::int64_t place = 0;
        for (std::size_t peer = 0; peer < ranks; ++peer) {
            auto const bytes = piece(counts[peer], begin);
            if (bytes > 0) std::memcpy(out.data() + place + begin, comm.theirs(static_cast<std::int32_t>(peer)), bytes);
            place += counts[peer];
        }
    }
    return {};
}

}  // namespace shardwise::inline v0_2_0
