#pragma once

#include <shardwise/comm/call.hpp>
#include <shardwise/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// A rank knows its number and how many there are.
template <class C>
concept HasRank = requires(C const& comm) {
    { comm.rank() } -> std::same_as<std::int32_t>;
    { comm.size() } -> std::same_as<std::int32_t>;
};

/// A rank can pass bytes to one other; both sides name the type and the count.
template <class C>
concept PassesMessages = requires(C& comm, Dtype dtype, std::byte const* from, std::byte* to) {
    { comm.send_bytes(0, dtype, from, std::int64_t{}, std::size_t{}) } -> std::same_as<Result<>>;
    { comm.receive_bytes(0, dtype, to, std::int64_t{}, std::size_t{}) } -> std::same_as<Result<>>;
};

/// The ranks of a communicator see common staging memory: a step shows everyone what everyone wrote.
template <class C>
concept SharesMemory = requires(C& comm, CollectiveCall const& call) {
    comm.begin(call);
    { comm.mine() } -> std::same_as<std::byte*>;
    { comm.theirs(0) } -> std::same_as<std::byte const*>;
    { comm.step() } -> std::same_as<Result<>>;
    { comm.chunk_bytes() } -> std::same_as<std::size_t>;
};

/// One rank of a group. Every call blocks at most as long as the group's timeout; after the first failure every call of
/// every rank returns that failure.
template <class C>
concept Communicator = HasRank<C> && PassesMessages<C> && SharesMemory<C>;

}  // namespace shardwise::inline v0_2_0
