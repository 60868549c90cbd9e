// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/call.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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

/// A rank can end its group with an error that all ranks then get.
template <class C>
concept CanFail = requires(C& comm, Error const& error) {
    { comm.fail(error) } -> std::same_as<Result<>>;
};

/// A rank counts what its collectives take from the others: took(messages, bytes) is of the call that began last.
template <class C>
concept CountsTraffic = requires(C& comm) {
    { comm.traffic() } -> std::same_as<Traffic&>;
    comm.took(std::int64_t{}, std::int64_t{});
};

/// The ranks of a communicator see common staging memory: a step shows everyone what the others wrote (`theirs`, of another
/// rank than one's own). Of two ranks, `mine` lies exactly where `theirs` does or apart from it, and what `theirs` showed stays there
/// until it is written to: an all_reduce reads it while it writes to `mine`, which it asked for later. Of more, each can also lend
/// memory for two steps: the others read it after the first and put their answers into it, which are there after the second.
/// One that also has begin(call, counts) is given the counts by which a collective distributes elements, to name one that differs.
template <class C>
concept SharesMemory = requires(C& comm, CollectiveCall const& call) {
    comm.begin(call);
    { comm.mine(std::size_t{}) } -> std::same_as<std::byte*>;
    comm.put(comm.mine(std::size_t{}), static_cast<void const*>(nullptr), std::size_t{});
    { comm.theirs(0) } -> std::same_as<std::byte const*>;
    { comm.step() } -> std::same_as<Result<>>;
    { comm.chunk_bytes() } -> std::same_as<std::size_t>;
    { comm.lend() } -> std::same_as<Result<std::byte*>>;
    { comm.lent(0) } -> std::same_as<std::byte*>;
    { comm.lent_bytes() } -> std::same_as<std::size_t>;
};

/// Bytes on their way to a rank.
struct Outgoing {
    std::int32_t to = 0;
    std::byte const* data = nullptr;
    std::size_t bytes = 0;
};
/// Bytes that a rank sends.
struct Incoming {
    std::int32_t from = 0;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
};

/// The ranks of a communicator share nothing: `agree` begins a collective on all ranks and compares what they ask for;
/// `exchange` then moves messages between pairs of ranks, all at once, at most one in each direction of a pair.
/// One that also has agree(call, counts) is given the counts by which a collective distributes elements.
template <class C>
concept ExchangesMessages = requires(C& comm, CollectiveCall const& call, std::span<Outgoing const> out,
                                     std::span<Incoming const> in) {
    { comm.agree(call) } -> std::same_as<Result<>>;
    { comm.exchange(out, in) } -> std::same_as<Result<>>;
};

/// A rank whose messages wait for their receivers in memory of its own: `keep_unread` says how many before a send waits for the
/// oldest to be received, `finish_sends` waits for all.
template <class C>
concept KeepsUnread = requires(C& comm) {
    comm.keep_unread(std::int64_t{}, std::int64_t{});
    { comm.finish_sends() } -> std::same_as<Result<>>;
};

namespace detail {

/// What a communicator that holds others shows to a check of its form.
struct CommunicatorVisitor {
    template <class C>
    Result<> operator()(C&) const {
        return {};
    }
};

}  // namespace detail

/// A communicator is one of several, known at run time: its collectives are those of the one that it holds.
template <class C>
concept HoldsCommunicator = requires(C& comm, detail::CommunicatorVisitor const& visitor) {
    { comm.visit(visitor) } -> std::same_as<Result<>>;
};

/// One rank of a group. A call waits for other ranks at most as long as the group's timeout, and as long again for each further
/// piece of long data once a piece has come; after the first failure every call of every rank returns that failure. Errors name ranks
/// by their numbers in the group, and in a part that was split off also by those of the whole: "rank 1 (of all: rank 5)". Add one:
/// docs/how-to/add-a-communicator.md.
template <class C>
concept Communicator = HasRank<C> && PassesMessages<C> && CanFail<C> && CountsTraffic<C> &&
    (SharesMemory<C> || ExchangesMessages<C> || HoldsCommunicator<C>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
