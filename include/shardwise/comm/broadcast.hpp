#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace shardwise::inline v0_2_0 {

/// Gives every rank the data of `root`.
///
/// Shapes  data [n], the same n on all ranks
/// Errors  invalid_argument for a root that is no rank; collective_mismatch, rank_lost, deadline_exceeded
template <class T, Communicator C>
[[nodiscard]] Result<> broadcast(C& comm, TensorView<T, 1, Host> data, std::int32_t root) {
    if (root < 0 || root >= comm.size()) {
        return Error{ErrorCode::invalid_argument}
            .in("broadcast")
            .at("root")
            .because("is no rank of the group")
            .got(root)
            .expected(comm.size() - 1);
    }
    auto const count = data.elements();
    comm.begin({CollectiveKind::broadcast, dtype_of<T>, ReduceOp::sum, root, count});
    auto const chunk = static_cast<std::int64_t>(comm.chunk_bytes() / sizeof(T));
    for (std::int64_t begin = 0; begin < count || begin == 0; begin += chunk) {
        auto const bytes = static_cast<std::size_t>(std::min(chunk, count - begin)) * sizeof(T);
        bool const is_root = comm.rank() == root;
        if (is_root && bytes > 0) std::memcpy(comm.mine(), data.data() + begin, bytes);
        if (auto const stepped = comm.step(); !stepped) return stepped;
        if (!is_root && bytes > 0) std::memcpy(data.data() + begin, comm.theirs(root), bytes);
    }
    return {};
}

}  // namespace shardwise::inline v0_2_0
