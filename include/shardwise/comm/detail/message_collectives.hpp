// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/reduce.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/op/collective_load.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

// The collectives between ranks that only exchange messages. Every rank sends each other rank what that one needs, all at
// once, and sums in the order of the ranks: the bytes are the fewest there are, and the bits those of ranks that share memory.

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

[[nodiscard]] inline std::size_t rank_index(std::int32_t rank) {
    return static_cast<std::size_t>(rank);
}

/// Part [begin, begin + count) of each rank, from their counts.
class PartPlaces {
public:
    explicit PartPlaces(std::span<std::int64_t const> counts) : counts_(counts) {
        std::int64_t begin = 0;
        for (auto const count : counts) {
            begins_.push_back(begin);
            begin += count;
        }
    }
    [[nodiscard]] std::int64_t begin(std::int32_t rank) const { return begins_[rank_index(rank)]; }
    [[nodiscard]] std::int64_t count(std::int32_t rank) const { return counts_[rank_index(rank)]; }

private:
    std::span<std::int64_t const> counts_;
    List<std::int64_t> begins_;
};

/// Messages of one exchange; those of no bytes are left out.
struct Exchange {
    List<Outgoing> out;
    List<Incoming> in;
    std::int64_t received = 0;

    template <class T>
    void send(std::int32_t to, T const* data, std::int64_t count) {
        if (count > 0)
            out.push_back({to, reinterpret_cast<std::byte const*>(data), static_cast<std::size_t>(count) * sizeof(T)});
    }
    template <class T>
    void receive(std::int32_t from, T* data, std::int64_t count) {
        if (count == 0) return;
        auto const bytes = static_cast<std::size_t>(count) * sizeof(T);
        in.push_back({from, reinterpret_cast<std::byte*>(data), bytes});
        received += static_cast<std::int64_t>(bytes);
    }
    template <ExchangesMessages C>
    [[nodiscard]] Result<> run(C& comm) const {
        comm.took(in.empty() ? 0 : 1, received);
        if (in.empty() && out.empty()) return {};
        return comm.exchange(std::span<Outgoing const>{out.data(), out.size()},
                             std::span<Incoming const>{in.data(), in.size()});
    }
};

template <class T, ExchangesMessages C>
[[nodiscard]] Result<> gather_parts(C& comm, T const* in, T* out, PartPlaces const& places) {
    auto const rank = comm.rank();
    if (auto* const own = out + places.begin(rank); own != in && places.count(rank) > 0)
        std::memmove(own, in, static_cast<std::size_t>(places.count(rank)) * sizeof(T));
    Exchange exchange;
    for (std::int32_t peer = 0; peer < comm.size(); ++peer) {
        if (peer == rank) continue;
        exchange.send(peer, in, places.count(rank));
        exchange.receive(peer, out + places.begin(peer), places.count(peer));
    }
    return exchange.run(comm);
}

template <class T, ExchangesMessages C>
[[nodiscard]] Result<> reduce_parts(C& comm, T const* in, T* out, PartPlaces const& places, ReduceOp op) {
    auto const rank = comm.rank();
    auto const count = places.count(rank);
    List<T> received(static_cast<std::size_t>(count) * static_cast<std::size_t>(comm.size()));
    Exchange exchange;
    for (std::int32_t peer = 0; peer < comm.size(); ++peer) {
        if (peer == rank) continue;
        exchange.send(peer, in + places.begin(peer), places.count(peer));
        exchange.receive(peer, received.data() + count * peer, count);
    }
    if (auto const done = exchange.run(comm); !done) return done;
    if (count > 0) {
        reduce_ranks(out, in + places.begin(rank), count, rank, comm.size(), op,
                     [&](std::int32_t peer) -> T const* { return received.data() + count * peer; });
    }
    return {};
}

/// Short data go whole to everybody; of long data each rank sums its part, and the parts are gathered.
template <class T, ExchangesMessages C>
[[nodiscard]] Result<> reduce_for_all(C& comm, T* data, std::int64_t count, ReduceOp op) {
    auto const ranks = comm.size();
    auto const rank = comm.rank();
    if (!is_summed_directly(static_cast<double>(count) * sizeof(T), ranks)) {
        List<std::int64_t> counts;
        for (std::int32_t peer = 0; peer < ranks; ++peer) counts.push_back(split_units(count, ranks, peer).size());
        PartPlaces const places(std::span<std::int64_t const>{counts.data(), counts.size()});
        auto* const own = data + places.begin(rank);
        if (auto const done = reduce_parts(comm, data, own, places, op); !done) return done;
        return gather_parts<T>(comm, own, data, places);
    }
    // What the others have, in the order of their ranks.
    List<T> received(static_cast<std::size_t>(count) * static_cast<std::size_t>(ranks - 1));
    auto const theirs = [&](std::int32_t peer) { return received.data() + count * (peer < rank ? peer : peer - 1); };
    Exchange exchange;
    for (std::int32_t peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        exchange.send(peer, data, count);
        exchange.receive(peer, theirs(peer), count);
    }
    if (auto const done = exchange.run(comm); !done) return done;
    if (count > 0) {
        reduce_ranks(data, data, count, rank, ranks, op, [&](std::int32_t peer) -> T const* { return theirs(peer); });
    }
    return {};
}

/// A binomial tree from the root: every rank that has the data passes them on, and their number doubles.
template <class T, ExchangesMessages C>
[[nodiscard]] Result<> broadcast_down(C& comm, T* data, std::int64_t count, std::int32_t root) {
    auto const ranks = comm.size();
    auto const place = (comm.rank() - root + ranks) % ranks;
    auto const rank_at = [&](std::int32_t at) { return (at + root) % ranks; };
    for (std::int32_t reached = 1; reached < ranks; reached *= 2) {
        Exchange exchange;
        if (place < reached && place + reached < ranks) exchange.send(rank_at(place + reached), data, count);
        if (place >= reached && place < 2 * reached) exchange.receive(rank_at(place - reached), data, count);
        if (auto const done = exchange.run(comm); !done) return done;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
