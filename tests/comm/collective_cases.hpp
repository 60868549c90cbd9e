// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/all_to_all.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/deterministic_sum.hpp>
#include <shardwise/comm/reduce_scatter.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/op/collective_load.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

// What every communicator must give, whatever moves its bytes: each case runs on all ranks of a group of any size and returns
// an error that says what is wrong.

namespace shardwise::testing {

template <class T>
TensorView<T, 1, Host> flat(std::vector<T>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}};
}
template <class T>
TensorView<T const, 1, Host> flat(std::vector<T> const& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

inline Error wrong(std::string const& what, std::int64_t got = 0) {
    return Error{ErrorCode::shape_mismatch}.in("case").because(what).got(got);
}

/// Any floats, the same in every process.
inline std::vector<float> any_floats(std::int32_t rank, std::int64_t length) {
    std::mt19937 random(static_cast<unsigned>(77 + rank));
    std::vector<float> values(static_cast<std::size_t>(length));
    for (auto& value : values) {
        auto const bits = random();
        value = std::ldexp(static_cast<float>(bits % 65536U) - 32768.0F, static_cast<int>(bits >> 28U) - 24);
    }
    return values;
}

/// Sums have the bits of an addition in the order of the ranks; maxima and minima are exact.
template <class C>
Result<> check_all_reduce(C& comm, std::initializer_list<std::int64_t> lengths) {
    for (auto const length : lengths) {
        std::vector<std::vector<float>> all;
        for (std::int32_t rank = 0; rank < comm.size(); ++rank) all.push_back(any_floats(rank, length));
        for (auto const op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
            auto data = all[static_cast<std::size_t>(comm.rank())];
            if (auto const done = all_reduce(comm, flat(data), op); !done) return done;
            for (std::size_t i = 0; i < data.size(); ++i) {
                auto expected = all[0][i];
                for (std::size_t rank = 1; rank < all.size(); ++rank) {
                    auto const other = all[rank][i];
                    expected = op == ReduceOp::sum   ? expected + other
                               : op == ReduceOp::max ? std::max(expected, other)
                                                     : std::min(expected, other);
                }
                if (std::memcmp(&data[i], &expected, sizeof expected) != 0)
                    return wrong("all_reduce " + std::string(name_of(op)) + " of " + std::to_string(length),
                                 std::int64_t(i));
            }
        }
    }
    return {};
}

template <class C>
Result<> check_parts(C& comm, std::initializer_list<std::int64_t> lengths) {
    auto const ranks = comm.size();
    auto const rank = comm.rank();
    for (auto const length : lengths) {
        for (std::int32_t root = 0; root < ranks; ++root) {
            std::vector<std::int32_t> data(static_cast<std::size_t>(length), -1);
            if (rank == root) std::iota(data.begin(), data.end(), 100 * root);
            if (auto const done = broadcast(comm, flat(data), root); !done) return done;
            for (std::size_t i = 0; i < data.size(); ++i) {
                if (data[i] != 100 * root + static_cast<std::int32_t>(i)) return wrong("broadcast", length);
            }
        }
        // Unequal parts, one of which may be empty.
        std::vector<std::int64_t> counts;
        for (std::int32_t r = 0; r < ranks; ++r) counts.push_back(r == 0 ? length / 2 : length + r);
        auto const total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
        std::vector<std::int32_t> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]));
        std::iota(own.begin(), own.end(), rank * 1'000'000);
        std::vector<std::int32_t> all(static_cast<std::size_t>(total));
        if (auto const done = all_gather(comm, flat(std::as_const(own)), flat(all), counts); !done) return done;
        std::size_t place = 0;
        for (std::int32_t r = 0; r < ranks; ++r) {
            for (std::int32_t i = 0; i < counts[static_cast<std::size_t>(r)]; ++i) {
                if (all[place++] != r * 1'000'000 + i) return wrong("all_gather", length);
            }
        }
        auto const value = [](std::int32_t of, std::int64_t i) {
            return static_cast<std::int32_t>((i * 7 + of * 13) % 101);
        };
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = value(rank, static_cast<std::int64_t>(i));
        if (auto const done = reduce_scatter(comm, flat(std::as_const(all)), flat(own), counts); !done) return done;
        auto const begin = std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
        for (std::size_t i = 0; i < own.size(); ++i) {
            std::int32_t sum = 0;
            for (std::int32_t r = 0; r < ranks; ++r) sum += value(r, begin + static_cast<std::int64_t>(i));
            if (own[i] != sum) return wrong("reduce_scatter", length);
        }
        auto const count_of = [&](std::int32_t from, std::int32_t to) { return length * ((from * 3 + to * 5) % 4); };
        std::vector<std::int64_t> sent;
        std::vector<std::int64_t> received;
        std::vector<std::int32_t> in;
        for (std::int32_t peer = 0; peer < ranks; ++peer) {
            sent.push_back(count_of(rank, peer));
            received.push_back(count_of(peer, rank));
            for (std::int32_t i = 0; i < sent.back(); ++i) in.push_back(rank * 100'000 + peer * 10'000 + i);
        }
        std::vector<std::int32_t> out(
            static_cast<std::size_t>(std::accumulate(received.begin(), received.end(), std::int64_t{0})));
        if (auto const done = all_to_all(comm, flat(std::as_const(in)), sent, flat(out), received); !done) return done;
        place = 0;
        for (std::int32_t peer = 0; peer < ranks; ++peer) {
            for (std::int32_t i = 0; i < received[static_cast<std::size_t>(peer)]; ++i) {
                if (out[place++] != peer * 100'000 + rank * 10'000 + i) return wrong("all_to_all", length);
            }
        }
    }
    return {};
}

/// Around a ring, and many small ones that nobody waits for.
template <class C>
Result<> check_messages(C& comm, std::initializer_list<std::int64_t> lengths) {
    auto const ranks = comm.size();
    if (ranks == 1) return {};
    auto const next = (comm.rank() + 1) % ranks;
    auto const previous = (comm.rank() + ranks - 1) % ranks;
    for (auto const length : lengths) {
        std::vector<std::int32_t> out(static_cast<std::size_t>(length), comm.rank());
        std::vector<std::int32_t> in(out.size());
        auto const sending = [&] { return send(comm, flat(std::as_const(out)), next); };
        auto const receiving = [&] { return receive(comm, flat(in), previous); };
        if (auto const done = comm.rank() == 0 ? sending() : receiving(); !done) return done;
        if (auto const done = comm.rank() == 0 ? receiving() : sending(); !done) return done;
        for (auto const value : in) {
            if (value != previous) return wrong("ring", length);
        }
    }
    for (std::int32_t i = 0; i < 40; ++i) {
        std::vector<std::int32_t> one{i};
        if (comm.rank() == 0) {
            if (auto const done = send(comm, flat(std::as_const(one)), 1); !done) return done;
        } else if (comm.rank() == 1) {
            if (auto const done = receive(comm, flat(one), 0); !done) return done;
            if (one[0] != i) return wrong("order of messages", i);
        }
    }
    return {};
}

/// Groups in groups, whose messages do not meet.
template <class C>
Result<> check_split(C& comm) {
    auto rows = comm.split(comm.rank() / 2);
    if (!rows) return rows.error();
    auto columns = comm.split(comm.rank() % 2);
    if (!columns) return columns.error();
    auto const expect_sum = [&](C& group, std::int32_t expected) -> Result<> {
        std::vector<std::int32_t> sum{comm.rank()};
        if (auto const done = all_reduce(group, flat(sum)); !done) return done;
        return sum[0] == expected ? Result<>{} : wrong("sum of a part", sum[0]);
    };
    std::int32_t row_sum = 0;
    std::int32_t column_sum = 0;
    for (std::int32_t rank = 0; rank < comm.size(); ++rank) {
        row_sum += rank / 2 == comm.rank() / 2 ? rank : 0;
        column_sum += rank % 2 == comm.rank() % 2 ? rank : 0;
    }
    if (auto const done = expect_sum(*rows, row_sum); !done) return done;
    if (auto const done = expect_sum(*columns, column_sum); !done) return done;
    auto alone = rows->split(rows->rank());
    if (!alone) return alone.error();
    if (auto const done = expect_sum(*alone, comm.rank()); !done) return done;
    // The same ranks in two groups: what one sends in the second is not received in the first.
    auto again = comm.split(0);
    if (!again) return again.error();
    if (comm.size() > 1 && comm.rank() < 2) {
        std::vector<std::int32_t> one{1};
        std::vector<std::int32_t> two{2};
        if (comm.rank() == 0) {
            if (auto const done = send(comm, flat(std::as_const(one)), 1); !done) return done;
            if (auto const done = send(*again, flat(std::as_const(two)), 1); !done) return done;
        } else {
            if (auto const done = receive(*again, flat(one), 0); !done) return done;
            if (auto const done = receive(comm, flat(two), 0); !done) return done;
            if (one[0] != 2 || two[0] != 1) return wrong("a message of another group", one[0]);
        }
    }
    return barrier(comm);
}

/// The bits that one rank alone gets from the tree.
template <class C>
Result<> check_deterministic_sum(C& comm) {
    constexpr std::int64_t width = 37;
    for (std::int64_t const leaves : {1, 5, 13, 32}) {
        auto const rows = any_floats(1000, leaves * width);
        std::vector<float> expected(width);
        sum_leaves({0, leaves}, leaves, width, rows.data(), expected.data());
        std::vector<UnitRange> owners;
        for (std::int32_t rank = 0; rank < comm.size(); ++rank)
            owners.push_back(split_units(leaves, comm.size(), rank));
        auto const own = owners[static_cast<std::size_t>(comm.rank())];
        std::vector<float> sums(sum_nodes(own, leaves).size() * width);
        sum_leaves(own, leaves, width, rows.data() + own.begin * width, sums.data());
        std::vector<float> out(width);
        if (auto const done = deterministic_sum(comm, owners, flat(std::as_const(sums)), flat(out)); !done) return done;
        if (std::memcmp(out.data(), expected.data(), sizeof(float) * width) != 0)
            return wrong("deterministic_sum over other leaves", leaves);
    }
    return {};
}

/// What rank 0 counts of one call of each kind where every rank brings `count` floats for each.
template <class C>
Result<> check_load(C& comm, std::int64_t count) {
    auto const ranks = comm.size();
    std::vector<float> own(static_cast<std::size_t>(count));
    std::vector<float> all(static_cast<std::size_t>(count * ranks));
    std::vector<float> other(all.size());
    std::vector<std::int64_t> const counts(static_cast<std::size_t>(ranks), count);
    comm.traffic().clear();
    if (auto const done = all_reduce(comm, flat(all)); !done) return done;
    if (auto const done = all_gather(comm, flat(std::as_const(own)), flat(all), counts); !done) return done;
    if (auto const done = reduce_scatter(comm, flat(std::as_const(all)), flat(own), counts); !done) return done;
    if (auto const done = all_to_all(comm, flat(std::as_const(all)), counts, flat(other), counts); !done) return done;
    if (auto const done = broadcast(comm, flat(all), ranks - 1); !done) return done;
    if (comm.rank() == 0 && ranks > 1) {
        if (auto const done = receive(comm, flat(own), 1); !done) return done;
    } else if (comm.rank() == 1) {
        if (auto const done = send(comm, flat(std::as_const(own)), 0); !done) return done;
    }
    auto const counted = comm.traffic();
    if (auto const done = barrier(comm); !done) return done;
    if (comm.rank() != 0) return {};
    auto const part = static_cast<double>(count) * sizeof(float);
    auto const bytes = part * ranks;
    auto const gather = gather_load(bytes, ranks, Reach::at_once);
    auto const one = [&](double size) { return ranks > 1 ? CollectiveLoad{1.0, size} : CollectiveLoad{}; };
    struct Expected {
        CollectiveKind kind;
        CollectiveLoad load;
    };
    for (auto const& [kind, load] :
         {Expected{CollectiveKind::all_reduce, all_reduce_load(bytes, ranks)},
          Expected{CollectiveKind::all_gather, gather}, Expected{CollectiveKind::reduce_scatter, gather},
          Expected{CollectiveKind::all_to_all, gather}, Expected{CollectiveKind::broadcast, one(bytes)},
          Expected{CollectiveKind::receive, one(part)}}) {
        auto const& taken = counted.of(kind);
        auto const name = std::string(name_of(kind));
        if (taken.calls != (kind == CollectiveKind::receive && ranks == 1 ? 0 : 1)) return wrong("calls of " + name);
        if (static_cast<double>(taken.messages) != load.messages) return wrong("messages of " + name, taken.messages);
        if (std::abs(static_cast<double>(taken.bytes) - load.bytes) > 1e-9 * load.bytes)
            return wrong("bytes of " + name, taken.bytes);
    }
    return {};
}

/// Ranks take the messages and the bytes of op/collective_load.hpp, on both sides of the size from which sums go in parts.
template <class C>
Result<> check_loads(C& comm) {
    auto const edge = direct_sum_bytes / static_cast<std::int64_t>(sizeof(float)) / comm.size();
    for (auto const count : {std::int64_t{1}, std::int64_t{5}, edge, edge + 1, std::int64_t{40'000}}) {
        if (auto const done = check_load(comm, count); !done) return done;
    }
    return {};
}

/// The matrix of the suites of MPI implementations (Open MPI, MPICH): every arithmetic type by every operation by counts of 0, 1
/// and one below, at and above the powers of two.
template <class T, class C>
Result<> check_type(C& comm, std::string const& type) {
    for (std::int64_t power = 1; power <= 4096; power *= 2) {
        for (auto const count : {power - 1, power, power + 1}) {
            for (auto const op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
                // At most 3 ranks' worth of 30 in 8 bits.
                auto const of = [](std::int32_t rank, std::int64_t i) {
                    return static_cast<int>((i * 3 + rank * 5) % 31) - 15;
                };
                std::vector<T> data;
                for (std::int64_t i = 0; i < count; ++i) data.push_back(static_cast<T>(of(comm.rank(), i)));
                if (auto const done = all_reduce(comm, flat(data), op); !done) return done;
                for (std::int64_t i = 0; i < count; ++i) {
                    auto expected = of(0, i);
                    for (std::int32_t rank = 1; rank < comm.size(); ++rank) {
                        auto const other = of(rank, i);
                        expected = op == ReduceOp::sum   ? expected + other
                                   : op == ReduceOp::max ? std::max(expected, other)
                                                         : std::min(expected, other);
                    }
                    if (data[static_cast<std::size_t>(i)] != static_cast<T>(expected))
                        return wrong("all_reduce " + std::string(name_of(op)) + " of " + std::to_string(count) + " " + type,
                                     i);
                }
            }
        }
    }
    return {};
}

template <class C>
Result<> check_types(C& comm) {
    for (auto const& done : {check_type<std::int8_t>(comm, "int8"), check_type<std::int16_t>(comm, "int16"),
                             check_type<std::int32_t>(comm, "int32"), check_type<std::int64_t>(comm, "int64"),
                             check_type<float>(comm, "float"), check_type<double>(comm, "double")}) {
        if (!done) return done;
    }
    return {};
}

/// Every case, of lengths up to `longest`.
template <class C>
Result<> check_collectives(C& comm, std::int64_t longest) {
    if (auto const done = check_types(comm); !done) return done;
    if (auto const done = check_all_reduce(comm, {0, 1, 3, 64, 65, 1000, longest}); !done) return done;
    if (auto const done = check_parts(comm, {0, 1, 40, 300}); !done) return done;
    if (auto const done = check_messages(comm, {0, 1, 1000, longest}); !done) return done;
    if (auto const done = check_split(comm); !done) return done;
    if (auto const done = check_deterministic_sum(comm); !done) return done;
    if (auto const done = check_loads(comm); !done) return done;
    return barrier(comm);
}

}  // namespace shardwise::testing
