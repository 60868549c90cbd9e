// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/message_collectives.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

template <class T, SharesMemory C>
[[nodiscard]] Result<> broadcast_in_steps(C& comm, CollectiveCall const& call, T* data, std::int64_t count,
                                          std::int32_t root) {
    comm.begin(call);
    bool const is_root = comm.rank() == root;
    auto const chunk = static_cast<std::int64_t>(comm.chunk_bytes() / sizeof(T));
    for (std::int64_t begin = 0; begin < count || begin == 0; begin += chunk) {
        auto const bytes = static_cast<std::size_t>(std::min(chunk, count - begin)) * sizeof(T);
        auto* const mine = comm.mine(bytes);
        if (is_root) comm.put(mine, data + begin, bytes);
        if (auto const stepped = comm.step(); !stepped) return stepped;
        if (!is_root && bytes > 0) std::memcpy(data + begin, comm.theirs(root), bytes);
    }
    if (!is_root && count > 0) comm.took(1, count * static_cast<std::int64_t>(sizeof(T)));
    return {};
}

}  // namespace detail

/// Gives every rank the data of `root`.
///
/// Shapes  data [n], the same n on all ranks
/// Errors  invalid_argument for a root that is no rank; collective_mismatch, rank_lost, deadline_exceeded
template <class T, Communicator C>
[[nodiscard]] Result<> broadcast(C& comm, TensorView<T, 1, Host> data, std::int32_t root) {
    if (auto const known = check_views("broadcast", data); !known) return known;
    if (root < 0 || root >= comm.size()) {
        return Error{ErrorCode::invalid_argument}
            .in("broadcast")
            .at("root")
            .because("is no rank of the group")
            .got(root)
            .between(0, comm.size() - 1);
    }
    auto const count = data.elements();
    CollectiveCall const call{CollectiveKind::broadcast, dtype_of<T>, ReduceOp::sum, root, count};
    if constexpr (HoldsCommunicator<C>) {
        return comm.visit([&](auto& one) { return broadcast(one, data, root); });
    } else if constexpr (ExchangesMessages<C>) {
        if (auto const agreed = comm.agree(call); !agreed) return agreed;
        return detail::broadcast_down(comm, data.data(), count, root);
    } else {
        return detail::broadcast_in_steps(comm, call, data.data(), count, root);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
