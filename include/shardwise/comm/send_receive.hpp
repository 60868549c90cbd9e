// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

template <HasRank C>
[[nodiscard]] Result<> check_peer(C const& comm, std::int32_t peer, std::string_view call) {
    if (peer >= 0 && peer < comm.size() && peer != comm.rank()) return {};
    return Error{ErrorCode::invalid_argument}
        .in(call)
        .at("peer")
        .because("is not another rank of the group")
        .got(peer)
        .between(0, comm.size() - 1);
}

}  // namespace detail

/// Sends to one rank, which receives the same type and count; messages between two ranks keep their order.
///
/// Order   returns when the group's memory holds the data: `data` may be changed at once. A message longer than two letters
///         (GroupRegion::letter_size) waits for the receiver
/// Errors  invalid_argument; rank_lost, deadline_exceeded, or the group's first error
template <class T, Communicator C>
[[nodiscard]] Result<> send(C& comm, TensorView<T const, 1, Host> data, std::int32_t to) {
    if (auto const known = check_views("send", data); !known) return known;
    if (auto const known = detail::check_peer(comm, to, "send"); !known) return known;
    return comm.send_bytes(to, dtype_of<T>, reinterpret_cast<std::byte const*>(data.data()), data.elements(),
                           sizeof(T));
}

/// Receives what `from` sends next.
///
/// Errors  invalid_argument; collective_mismatch where type or count differ; rank_lost, deadline_exceeded
template <class T, Communicator C>
[[nodiscard]] Result<> receive(C& comm, TensorView<T, 1, Host> data, std::int32_t from) {
    if (auto const known = check_views("receive", data); !known) return known;
    if (auto const known = detail::check_peer(comm, from, "receive"); !known) return known;
    return comm.receive_bytes(from, dtype_of<T>, reinterpret_cast<std::byte*>(data.data()), data.elements(), sizeof(T));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
