// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/all_to_all.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/reduce_scatter.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/comm/threads.hpp>

#include <doctest/doctest.h>

#include "../comm/collective_cases.hpp"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

using namespace shardwise;

namespace {

template <class T>
TensorView<T, 1, Host> view(std::vector<T>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}};
}
template <class T>
TensorView<T const, 1, Host> view(std::vector<T> const& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

/// Small chunks, so that moderate lengths take several steps with an odd rest.
constexpr ThreadsOptions small_chunks{.chunk_bytes = 256};
constexpr std::int64_t lengths[] = {0, 1, 3, 63, 64, 65, 1000, 100'003};

/// A value that says whose it is and where it stands; sums over ranks stay exact in float.
template <class T>
T value_of(std::int32_t rank, std::int64_t i) {
    return static_cast<T>((i * 7 + rank * 13) % 101);
}

/// doctest's asserts are for one thread: ranks count what is wrong.
std::atomic<int> wrong{0};
void expect(bool holds) {
    if (!holds) wrong.fetch_add(1);
}

}  // namespace

TEST_CASE_TEMPLATE("all_reduce: sums, maxima and minima of any length over any number of ranks", T, float, double,
                   std::int32_t) {
    for (std::int32_t const ranks : {1, 2, 3, 4, 7}) {
        for (auto const length : lengths) {
            for (auto const op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
                wrong = 0;
                auto const result = run_threads(
                    ranks,
                    [&](Threads& comm) -> Result<> {
                        std::vector<T> data(static_cast<std::size_t>(length));
                        for (std::int64_t i = 0; i < length; ++i)
                            data[static_cast<std::size_t>(i)] = value_of<T>(comm.rank(), i);
                        if (auto const done = all_reduce(comm, view(data), op); !done) return done;
                        for (std::int64_t i = 0; i < length; ++i) {
                            auto expected = value_of<T>(0, i);
                            for (std::int32_t rank = 1; rank < comm.size(); ++rank) {
                                auto const other = value_of<T>(rank, i);
                                expected = op == ReduceOp::sum   ? static_cast<T>(expected + other)
                                           : op == ReduceOp::max ? std::max(expected, other)
                                                                 : std::min(expected, other);
                            }
                            expect(data[static_cast<std::size_t>(i)] == expected);
                        }
                        return {};
                    },
                    length > 1000 ? ThreadsOptions{} : small_chunks);
                CAPTURE(ranks);
                CAPTURE(length);
                REQUIRE(result);
                CHECK(wrong.load() == 0);
            }
        }
    }
}

TEST_CASE_TEMPLATE(
    "all_reduce: long sums in one loan of staging memory or in several, among calls that claim the same memory", T,
    float, Bfloat16, std::int32_t) {
    // More ranks than are added in registers, and parts of unequal length.
    for (std::int32_t const ranks : {3, 4, 17}) {
        for (auto const& options : {ThreadsOptions{}, ThreadsOptions{.chunk_bytes = 4096}}) {
            wrong = 0;
            auto const result = run_threads(
                ranks,
                [&](Threads& comm) -> Result<> {
                    for (std::int64_t const length : {40'001, 50'000, 33'000}) {
                        for (int turn = 0; turn < 2; ++turn) {
                            std::vector<T> data(static_cast<std::size_t>(length));
                            for (std::int64_t i = 0; i < length; ++i) {
                                auto const value = static_cast<float>((i + comm.rank() * 3 + turn) % 7);
                                data[static_cast<std::size_t>(i)] = static_cast<T>(value);
                            }
                            if (auto const done = all_reduce(comm, view(data)); !done) return done;
                            for (std::int64_t i = 0; i < length; ++i) {
                                std::int64_t sum = 0;
                                for (std::int32_t r = 0; r < comm.size(); ++r) sum += (i + r * 3 + turn) % 7;
                                expect(static_cast<float>(data[static_cast<std::size_t>(i)]) ==
                                       static_cast<float>(sum));
                            }
                        }
                        std::vector<T> news(12'345, static_cast<T>(static_cast<float>(comm.rank() + 1)));
                        if (auto const done = broadcast(comm, view(news), 1); !done) return done;
                        for (auto const one : news) expect(static_cast<float>(one) == 2.0F);
                    }
                    return {};
                },
                options);
            CAPTURE(ranks);
            REQUIRE(result);
            CHECK(wrong.load() == 0);
        }
    }
}

TEST_CASE("all_reduce: bfloat16 is added in float and rounded once, and a NaN of one rank reaches all") {
    auto const result = run_threads(3, [&](Threads& comm) -> Result<> {
        // 256 + 1 + 1 is 258 in bfloat16; rounded after each addition it would stay 256.
        std::vector<Bfloat16> data{Bfloat16{comm.rank() == 0 ? 256.0F : 1.0F}};
        if (auto const done = all_reduce(comm, view(data)); !done) return done;
        expect(static_cast<float>(data[0]) == 258.0F);
        std::vector<float> poisoned{comm.rank() == 1 ? std::numeric_limits<float>::quiet_NaN() : 5.0F};
        if (auto const done = all_reduce(comm, view(poisoned), ReduceOp::max); !done) return done;
        expect(std::isnan(poisoned[0]));
        return {};
    });
    REQUIRE(result);
    CHECK(wrong.exchange(0) == 0);
}

TEST_CASE("broadcast, all_gather and reduce_scatter of unequal parts give what their definitions say") {
    for (std::int32_t const ranks : {1, 2, 3, 5}) {
        for (auto const length : lengths) {
            wrong = 0;
            auto const result = run_threads(
                ranks,
                [&](Threads& comm) -> Result<> {
                    for (std::int32_t root = 0; root < ranks; ++root) {
                        std::vector<std::int32_t> data(static_cast<std::size_t>(length), -1);
                        if (comm.rank() == root) std::iota(data.begin(), data.end(), 100 * root);
                        if (auto const done = broadcast(comm, view(data), root); !done) return done;
                        for (std::size_t i = 0; i < data.size(); ++i) {
                            expect(data[i] == 100 * root + static_cast<std::int32_t>(i));
                        }
                    }
                    // Part r has length + r elements; the first part may be empty.
                    std::vector<std::int64_t> counts;
                    for (std::int32_t r = 0; r < ranks; ++r) counts.push_back(r == 0 ? length / 2 : length + r);
                    auto const total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
                    std::vector<std::int32_t> own(
                        static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())]));
                    for (std::size_t i = 0; i < own.size(); ++i)
                        own[i] = comm.rank() * 1'000'000 + static_cast<std::int32_t>(i);
                    std::vector<std::int32_t> all(static_cast<std::size_t>(total));
                    if (auto const done = all_gather(comm, view(std::as_const(own)), view(all), counts); !done)
                        return done;
                    std::size_t place = 0;
                    for (std::int32_t r = 0; r < ranks; ++r) {
                        for (std::int32_t i = 0; i < counts[static_cast<std::size_t>(r)]; ++i) {
                            expect(all[place++] == r * 1'000'000 + i);
                        }
                    }
                    for (std::size_t i = 0; i < all.size(); ++i)
                        all[i] = value_of<std::int32_t>(comm.rank(), static_cast<std::int64_t>(i));
                    if (auto const done = reduce_scatter(comm, view(std::as_const(all)), view(own), counts); !done)
                        return done;
                    std::int64_t begin = 0;
                    for (std::int32_t r = 0; r < comm.rank(); ++r) begin += counts[static_cast<std::size_t>(r)];
                    for (std::size_t i = 0; i < own.size(); ++i) {
                        std::int32_t sum = 0;
                        for (std::int32_t r = 0; r < ranks; ++r)
                            sum += value_of<std::int32_t>(r, begin + static_cast<std::int64_t>(i));
                        expect(own[i] == sum);
                    }
                    return {};
                },
                length > 1000 ? ThreadsOptions{} : small_chunks);
            CAPTURE(ranks);
            CAPTURE(length);
            REQUIRE(result);
            CHECK(wrong.load() == 0);
        }
    }
}

TEST_CASE("all_to_all: every part arrives at its rank, ordered by its sender, whatever the sizes") {
    for (std::int32_t const ranks : {1, 2, 3, 5}) {
        for (std::int64_t const scale : {0, 1, 40, 300}) {
            wrong = 0;
            auto const count_of = [&](std::int32_t from, std::int32_t to) { return scale * ((from * 3 + to * 5) % 4); };
            auto const result = run_threads(
                ranks,
                [&](Threads& comm) -> Result<> {
                    std::vector<std::int64_t> sent;
                    std::vector<std::int64_t> received;
                    std::vector<std::int32_t> in;
                    for (std::int32_t peer = 0; peer < ranks; ++peer) {
                        sent.push_back(count_of(comm.rank(), peer));
                        received.push_back(count_of(peer, comm.rank()));
                        for (std::int32_t i = 0; i < sent.back(); ++i)
                            in.push_back(comm.rank() * 100'000 + peer * 10'000 + i);
                    }
                    std::vector<std::int32_t> out(
                        static_cast<std::size_t>(std::accumulate(received.begin(), received.end(), std::int64_t{0})));
                    if (auto const done = all_to_all(comm, view(std::as_const(in)), sent, view(out), received); !done)
                        return done;
                    std::size_t place = 0;
                    for (std::int32_t peer = 0; peer < ranks; ++peer) {
                        for (std::int32_t i = 0; i < received[static_cast<std::size_t>(peer)]; ++i) {
                            expect(out[place++] == peer * 100'000 + comm.rank() * 10'000 + i);
                        }
                    }
                    return {};
                },
                small_chunks);
            REQUIRE(result);
            CHECK(wrong.load() == 0);
        }
    }
}

TEST_CASE("all_to_all: more ranks than a chunk has counts exchange them in several steps") {
    auto const result = run_threads(
        19,
        [&](Threads& comm) -> Result<> {
            std::vector<std::int64_t> sent;
            std::vector<std::int64_t> received;
            std::vector<std::int32_t> in;
            std::vector<std::int32_t> expected;
            for (std::int32_t peer = 0; peer < comm.size(); ++peer) {
                sent.push_back((comm.rank() + 2 * peer) % 5);
                received.push_back((peer + 2 * comm.rank()) % 5);
                in.insert(in.end(), static_cast<std::size_t>(sent.back()), comm.rank() * 100 + peer);
                expected.insert(expected.end(), static_cast<std::size_t>(received.back()), peer * 100 + comm.rank());
            }
            std::vector<std::int32_t> out(expected.size());
            if (auto const done = all_to_all(comm, view(std::as_const(in)), sent, view(out), received); !done)
                return done;
            expect(out == expected);
            return {};
        },
        {.chunk_bytes = 64});
    if (!result) CAPTURE(result.error().message());
    REQUIRE(result);
    CHECK(wrong.exchange(0) == 0);
}

TEST_CASE("send and receive keep their order, for messages of any length in both directions") {
    auto const result = run_threads(3, [&](Threads& comm) -> Result<> {
        auto const next = (comm.rank() + 1) % 3;
        auto const previous = (comm.rank() + 2) % 3;
        for (auto const length : lengths) {
            std::vector<std::int32_t> out(static_cast<std::size_t>(length), comm.rank());
            std::vector<std::int32_t> in(out.size());
            // Rank 0 sends first; a ring of long messages in which all sent first would wait for itself.
            auto const sending = [&] { return send(comm, view(std::as_const(out)), next); };
            auto const receiving = [&] { return receive(comm, view(in), previous); };
            if (auto const done = comm.rank() == 0 ? sending() : receiving(); !done) return done;
            if (auto const done = comm.rank() == 0 ? receiving() : sending(); !done) return done;
            for (auto const value : in) expect(value == previous);
        }
        for (std::int32_t i = 0; i < 100; ++i) {
            std::vector<std::int32_t> one{i};
            if (comm.rank() == 0) {
                if (auto const done = send(comm, view(std::as_const(one)), 1); !done) return done;
            } else if (comm.rank() == 1) {
                if (auto const done = receive(comm, view(one), 0); !done) return done;
                expect(one[0] == i);
            }
        }
        return {};
    });
    REQUIRE(result);
    CHECK(wrong.exchange(0) == 0);
}

TEST_CASE("split: ranks of one color are a group, numbered in their old order; groups can be split again") {
    auto const result = run_threads(6, [&](Threads& comm) -> Result<> {
        auto rows = comm.split(comm.rank() / 3);
        if (!rows) return rows.error();
        auto columns = comm.split(comm.rank() % 3);
        if (!columns) return columns.error();
        expect(rows->size() == 3 && rows->rank() == comm.rank() % 3);
        expect(columns->size() == 2 && columns->rank() == comm.rank() / 3);
        std::vector<std::int32_t> sum{comm.rank()};
        if (auto const done = all_reduce(*rows, view(sum)); !done) return done;
        expect(sum[0] == (comm.rank() < 3 ? 0 + 1 + 2 : 3 + 4 + 5));
        sum = {comm.rank()};
        if (auto const done = all_reduce(*columns, view(sum)); !done) return done;
        expect(sum[0] == 2 * (comm.rank() % 3) + 3);
        auto pair = rows->split(rows->rank() == 1 ? 7 : -7);
        if (!pair) return pair.error();
        expect(pair->size() == (rows->rank() == 1 ? 1 : 2));
        return barrier(comm);
    });
    REQUIRE(result);
    CHECK(wrong.exchange(0) == 0);
}

TEST_CASE("Threads: the cases that all communicators share, in many small steps and in few") {
    for (std::int32_t const ranks : {1, 2, 4}) {
        for (auto const& options : {small_chunks, ThreadsOptions{}}) {
            auto const longest = options.chunk_bytes == small_chunks.chunk_bytes ? 2'003 : 70'003;
            auto const result = run_threads(
                ranks, [&](Threads& comm) { return shardwise::testing::check_collectives(comm, longest); }, options);
            CAPTURE(ranks);
            if (!result) CAPTURE(result.error().message());
            CHECK(result);
        }
    }
}
