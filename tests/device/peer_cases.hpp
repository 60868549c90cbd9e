// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "peer_ranks.hpp"

TEST_CASE("PeerGroup refuses what cannot be a group, and says what it counts of memory") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    std::vector<TestDevice::Context*> const many(17, &bench->context());
    CHECK(Group::open({}).error().code() == ErrorCode::invalid_argument);
    CHECK(Group::open(many).error().code() == ErrorCode::invalid_argument);
    std::vector<TestDevice::Context*> const one(1, &bench->context());
    CHECK(Group::open(one, {.staging = Bytes{8}}).error().code() == ErrorCode::invalid_argument);
    CHECK(Group::open(one, {.blocks = 65}).error().code() == ErrorCode::invalid_argument);
    CHECK(Group::open(one, {.limit = 0s}).error().code() == ErrorCode::invalid_argument);
    {
        auto const group = Group::open(one, {.staging = Bytes{1000}, .blocks = 1});
        REQUIRE(group);
        CHECK((*group)->blocks() == 1);
        CHECK(bench->context().memory().current() == Bytes{static_cast<std::int64_t>(sizeof(PeerMemory)) + 2 * 1024});
    }
    CHECK(bench->context().memory().current() == Bytes{0});
}

TEST_SUITE_BEGIN("fibers");

TEST_CASE("all_reduce of one rank copies, in pieces and off alignment") {
    Ranks ranks(1, {.staging = Bytes{256}, .blocks = 1});
    if (!ranks.bench) return;
    check_all_reduce<float>(ranks, 1000, 0, 1);
    check_all_reduce<Bfloat16>(ranks, 259, 3, 2);
    check_all_reduce<float>(ranks, 0, 0, 3);
}

TEST_CASE("all_reduce sums over ranks on one device with the same bits everywhere, whatever the length and alignment") {
    if (!TestDevice::co_resident_blocks) return;
    for (int const count : {2, 3}) {
        Ranks ranks(count, {.staging = Bytes{4096}, .blocks = 2});
        if (!ranks.bench) return;
        // Long, short, long again; the last is several pieces.
        unsigned seed = 100;
        for (std::int64_t const length : {1024, 1, 0, 17, 2500}) {
            check_all_reduce<float>(ranks, length, 0, seed += 10);
        }
        check_all_reduce<float>(ranks, 333, 1, seed += 10);
        check_all_reduce<Bfloat16>(ranks, 1111, 0, seed += 10);
        check_all_reduce<Float16>(ranks, 100, 5, seed + 10);
    }
}

TEST_CASE("A group may wait as long as its limit can say") {
    if (!TestDevice::co_resident_blocks) return;
    Ranks ranks(2, {.staging = Bytes{1024}, .blocks = 2, .limit = std::chrono::microseconds::max()});
    if (!ranks.bench) return;
    check_all_reduce<float>(ranks, 100, 0, 1);
}

TEST_CASE("all_reduce counts on where its step numbers wrap around") {
    if (!TestDevice::co_resident_blocks) return;
    Ranks ranks(2, {.staging = Bytes{1024}, .blocks = 2});
    if (!ranks.bench) return;
    for (std::int32_t rank = 0; rank < 2; ++rank) {
        auto* const memory = ranks.group->memory(Rank{rank});
        ranks.poke(&memory->step, UINT32_MAX - 2);
        for (int block = 0; block < 2; ++block) {
            for (int from = 0; from < 2; ++from) ranks.poke(&memory->flags[block][from], UINT32_MAX - 2);
        }
    }
    for (unsigned turn = 0; turn < 6; ++turn) check_all_reduce<float>(ranks, 100 + turn, 0, turn);
}

TEST_CASE("all_reduce calls that are queued one after another, in place, each see the sum before") {
    if (!TestDevice::co_resident_blocks) return;
    Ranks ranks(2, {.staging = Bytes{1024}, .blocks = 2});
    if (!ranks.bench) return;
    std::vector<Buffer<float, TestDevice>> values;
    for (float const start : {1.0F, 2.0F}) values.push_back(ranks.bench->send(std::vector<float>(200, start)));
    for (std::int32_t rank = 0; rank < 2; ++rank) {
        auto const at = static_cast<std::size_t>(rank);
        for (int turn = 0; turn < 5; ++turn) {
            TensorView<float const, 1, TestDevice> const from = values[at].view();
            REQUIRE(all_reduce<float>(*ranks.group, Rank{rank}, from, values[at].view(), ranks.streams[at]));
        }
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
        REQUIRE(ranks.streams[rank].synchronize(Deadline::after(60s)));
        // 3, 6, 12, 24, 48.
        CHECK(ranks.bench->fetch(values[rank]) == std::vector<float>(200, 48.0F));
    }
}

TEST_CASE("all_reduce reads what a peer has left for it, though the peer runs no more") {
    // Both halves of the protocol without two kernels at once, which not every runtime has.
    Ranks ranks(2, {.staging = Bytes{1024}, .blocks = 2});
    if (!ranks.bench) return;
    auto const own = numbers(256, 1);
    auto const theirs = numbers(256, 2);
    auto* const peer = ranks.group->memory(Rank{1});
    auto* const staging = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(peer + 1) + 1024);
    TensorView<float const, 1, Host> const from(theirs.data(), {256});
    REQUIRE(TestDevice::copy<float>(from, TensorView<float, 1, TestDevice>(staging, {256}), ranks.bench->stream()));
    for (int block = 0; block < ranks.group->blocks(); ++block) {
        ranks.poke(&ranks.group->memory(Rank{0})->flags[block][1], 1U);
        ranks.poke(&peer->calls[1][block], std::uint64_t{2560} + static_cast<std::uint64_t>(dtype_of<float>) % 10);
    }
    auto values = ranks.bench->send(own);
    TensorView<float const, 1, TestDevice> const in = values.view();
    REQUIRE(all_reduce<float>(*ranks.group, Rank{0}, in, values.view(), ranks.streams[0]));
    REQUIRE(ranks.streams[0].synchronize(Deadline::after(60s)));
    CHECK(same_bits(ranks.bench->fetch(values), sum_of<float>({own, theirs})));
}

TEST_CASE("A rank that withholds its flag is named, ends its group and leaves the context usable") {
    Ranks ranks(2, {.staging = Bytes{1024}, .blocks = 2, .limit = 50ms});
    if (!ranks.bench) return;
    auto values = ranks.bench->send(numbers(100, 1));
    TensorView<float const, 1, TestDevice> const in = values.view();
    REQUIRE(all_reduce<float>(*ranks.group, Rank{0}, in, values.view(), ranks.streams[0]));
    auto const missed = ranks.streams[0].synchronize(Deadline::after(60s));
    REQUIRE_FALSE(missed);
    CHECK(missed.error().code() == ErrorCode::deadline_exceeded);
    CHECK(missed.error().place() == "rank 1");

    // The stream has failed, and so has every later call of the group, at once.
    auto const again = all_reduce<float>(*ranks.group, Rank{0}, in, values.view(), ranks.streams[0]);
    REQUIRE_FALSE(again);
    CHECK(again.error().place() == "rank 1");
    // The late rank is told instead of waiting.
    REQUIRE(all_reduce<float>(*ranks.group, Rank{1}, in, values.view(), ranks.streams[1]));
    auto const late = ranks.streams[1].synchronize(Deadline::after(60s));
    REQUIRE_FALSE(late);
    CHECK(late.error().code() == ErrorCode::rank_lost);
    CHECK(late.error().place() == "rank 0");

    if (!TestDevice::co_resident_blocks) return;
    ranks.streams.clear();
    for (int rank = 0; rank < 2; ++rank) ranks.streams.push_back(ranks.bench->context().make_stream());
    ranks.reopen({.staging = Bytes{1024}, .blocks = 2});
    check_all_reduce<float>(ranks, 100, 0, 9);
}

TEST_CASE("Ranks that ask for different lengths or dtypes are told so, and read nothing") {
    if (!TestDevice::co_resident_blocks) return;
    struct Lengths {
        std::int64_t first;
        std::int64_t second;
    };
    // 256 floats are what goes at a time; equal lengths differ in their dtype.
    for (auto const [length, other] : {Lengths{100, 99}, Lengths{300, 256}, Lengths{100, 100}}) {
        Ranks ranks(2, {.staging = Bytes{1024}, .blocks = 2, .limit = 10s});
        if (!ranks.bench) return;
        auto floats = ranks.bench->send(numbers(length, 1));
        auto shorts = ranks.bench->send(numbers<Float16>(length, 2));
        TensorView<float const, 1, TestDevice> const in = floats.view();
        REQUIRE(all_reduce<float>(*ranks.group, Rank{0}, in, floats.view(), ranks.streams[0]));
        if (other != length) {
            REQUIRE(all_reduce<float>(*ranks.group, Rank{1}, in.part(0, other), floats.view().part(0, other),
                                      ranks.streams[1]));
        } else {
            TensorView<Float16 const, 1, TestDevice> const others = shorts.view();
            REQUIRE(all_reduce<Float16>(*ranks.group, Rank{1}, others, shorts.view(), ranks.streams[1]));
        }
        bool is_mismatch = false;
        for (auto& stream : ranks.streams) {
            auto const result = stream.synchronize(Deadline::after(60s));
            REQUIRE_FALSE(result);
            is_mismatch = is_mismatch || result.error().code() == ErrorCode::collective_mismatch;
        }
        // One of them may have been told by the other.
        CHECK(is_mismatch);
        CHECK(same_bits(ranks.bench->fetch(floats), numbers(length, 1)));
    }
}

TEST_CASE("all_reduce refuses a rank, a length or a stream that is not its own") {
    Ranks ranks(1, {.staging = Bytes{1024}, .blocks = 1});
    if (!ranks.bench) return;
    auto values = ranks.bench->send(numbers(10, 1));
    TensorView<float const, 1, TestDevice> const in = values.view();
    auto& stream = ranks.streams[0];
    CHECK(all_reduce<float>(*ranks.group, Rank{1}, in, values.view(), stream).error().code() ==
          ErrorCode::invalid_argument);
    CHECK(all_reduce<float>(*ranks.group, Rank{0}, in, values.view().part(0, 9), stream).error().code() ==
          ErrorCode::shape_mismatch);
    // More counts than a group can have ranks are refused before any is taken.
    std::vector<std::int64_t> const many(1000, 1);
    for (auto const& refused : {ranks.group->all_gather<float>(Rank{0}, in, values.view(), many, stream),
                                ranks.group->reduce_scatter<float>(Rank{0}, in, values.view(), many, stream)})
        CHECK(refused.error().code() == ErrorCode::invalid_argument);
}

namespace {

/// Elements of each rank for every other: unlike, some none.
std::int64_t part_of(std::int64_t from, std::int64_t to, std::int64_t scale) {
    return (from + 2 * to) % 4 * scale;
}

/// all_gather, reduce_scatter and all_to_all of every rank, `shift` elements off the 16 bytes of the fast path.
template <class T>
void check_parts(Ranks& ranks, std::int64_t scale, std::int64_t shift, unsigned seed) {
    CAPTURE(scale);
    CAPTURE(shift);
    auto const size = static_cast<std::int64_t>(ranks.size());
    std::vector<std::int64_t> counts;
    for (std::int64_t rank = 0; rank < size; ++rank) counts.push_back(part_of(rank, 0, scale));
    auto const all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    std::int64_t largest = 0;
    for (std::int64_t i = 0; i < size * size; ++i) largest = std::max(largest, part_of(i / size, i % size, scale));
    struct Data {
        std::vector<T> gathered, scattered, exchanged;
        std::vector<Buffer<T, TestDevice>> memory;
        std::vector<std::int64_t> sent, received;
    };
    std::vector<Data> data(ranks.size());
    auto const at = [&](std::int64_t rank) -> Data& { return data[static_cast<std::size_t>(rank)]; };
    auto const send = [&](Data& to, std::vector<T> values) {
        values.insert(values.begin(), static_cast<std::size_t>(shift), T(0.0F));
        to.memory.push_back(ranks.bench->send(values));
    };
    for (std::int64_t rank = 0; rank < size; ++rank) {
        auto& own = at(rank);
        auto const number = seed + static_cast<unsigned>(rank);
        for (std::int64_t peer = 0; peer < size; ++peer) {
            own.sent.push_back(part_of(rank, peer, scale));
            own.received.push_back(part_of(peer, rank, scale));
        }
        own.gathered = numbers<T>(counts[static_cast<std::size_t>(rank)], number);
        own.scattered = numbers<T>(all, number + 100);
        own.exchanged = numbers<T>(std::accumulate(own.sent.begin(), own.sent.end(), std::int64_t{0}), number + 200);
        for (auto const* const values : {&own.gathered, &own.scattered, &own.exchanged}) send(own, *values);
        for (auto const count : {all, counts[static_cast<std::size_t>(rank)],
                                 std::accumulate(own.received.begin(), own.received.end(), std::int64_t{0})})
            send(own, std::vector<T>(static_cast<std::size_t>(count), T(7.0F)));
    }
    for (std::int64_t rank = 0; rank < size; ++rank) {
        auto& own = at(rank);
        auto& stream = ranks.streams[static_cast<std::size_t>(rank)];
        Rank const number{static_cast<std::int32_t>(rank)};
        auto const view = [&](std::size_t i) {
            return TensorView<T, 1, TestDevice>(own.memory[i].data() + shift, {own.memory[i].size() - shift});
        };
        auto const in = [&](std::size_t i) { return TensorView<T const, 1, TestDevice>(view(i)); };
        for (auto const& put :
             {ranks.group->template all_gather<T>(number, in(0), view(3), counts, stream),
              ranks.group->template reduce_scatter<T>(number, in(1), view(4), counts, stream),
              ranks.group->template all_to_all<T>(number, in(2), own.sent, view(5), own.received, largest, stream)})
            REQUIRE_MESSAGE(put, (put ? "" : put.error().message()));
    }
    std::vector<std::vector<T>> scattered;
    std::vector<T> gathered;
    for (auto const& one : data) {
        gathered.insert(gathered.end(), one.gathered.begin(), one.gathered.end());
        scattered.push_back(one.scattered);
    }
    auto const sums = sum_of(scattered);
    std::int64_t begin = 0;
    for (std::int64_t rank = 0; rank < size; ++rank) {
        CAPTURE(rank);
        auto const done = ranks.streams[static_cast<std::size_t>(rank)].synchronize(Deadline::after(60s));
        INFO(std::string(done ? "" : done.error().message()));
        REQUIRE(done);
        std::vector<T> exchanged;
        for (std::int64_t from = 0; from < size; ++from) {
            auto first = at(from).exchanged.begin();
            for (std::int64_t to = 0; to < rank; ++to) first += at(from).sent[static_cast<std::size_t>(to)];
            exchanged.insert(exchanged.end(), first, first + at(from).sent[static_cast<std::size_t>(rank)]);
        }
        auto const fetch = [&](std::size_t i) {
            auto values = ranks.bench->fetch(at(rank).memory[i]);
            values.erase(values.begin(), values.begin() + shift);
            return values;
        };
        auto const end = begin + counts[static_cast<std::size_t>(rank)];
        CHECK(same_bits(fetch(3), gathered));
        CHECK(same_bits(fetch(4), std::vector<T>(sums.begin() + begin, sums.begin() + end)));
        CHECK(same_bits(fetch(5), exchanged));
        begin = end;
    }
}

}  // namespace

TEST_CASE("Peers gather, scatter sums and exchange parts of unlike lengths, in pieces and off alignment") {
    if (!TestDevice::co_resident_blocks) return;
    for (int const count : {2, 3}) {
        Ranks ranks(count, {.staging = Bytes{1024}, .blocks = 2});
        if (!ranks.bench) return;
        unsigned seed = 500;
        check_parts<float>(ranks, 64, 0, seed += 10);
        check_parts<float>(ranks, 301, 1, seed += 10);
        check_parts<float>(ranks, 0, 0, seed += 10);
        check_parts<Bfloat16>(ranks, 77, 3, seed += 10);
        check_parts<Float16>(ranks, 128, 0, seed + 10);
    }
}

TEST_CASE("Sixteen ranks on one device add up, gather, scatter and exchange as two do") {
    if (!TestDevice::co_resident_blocks) return;
    CHECK(Group::max_ranks == 16);
    Ranks ranks(16, {.staging = Bytes{1024}, .blocks = 1});
    if (!ranks.bench) return;
    check_all_reduce<float>(ranks, 300, 0, 40);
    check_parts<Bfloat16>(ranks, 40, 1, 70);
}

TEST_CASE("Long sums of many ranks are made in two steps, with the bits of one") {
    if (!TestDevice::co_resident_blocks) return;
    CHECK_FALSE(Group::is_two_shot(2, std::int64_t{1} << 30U));
    CHECK_FALSE(Group::is_two_shot(3, (512 << 10) - 1));
    CHECK(Group::is_two_shot(4, 512 << 10));
    CHECK(Group::is_two_shot(5, 256 << 10));
    Ranks ranks(3, {.staging = Bytes{100'000}, .blocks = 2});
    if (!ranks.bench) return;
    check_all_reduce<float>(ranks, (128 << 10) + 5, 0, 900);
}

TEST_CASE("A rank that gives up ends the wait of the others at once, by its number among all") {
    Ranks ranks(2, {.staging = Bytes{1024}, .blocks = 2, .limit = 60s, .numbers = {4, 5}});
    if (!ranks.bench) return;
    auto values = ranks.bench->send(numbers(100, 1));
    TensorView<float const, 1, TestDevice> const in = values.view();
    std::vector<std::int64_t> const counts{50, 50};
    REQUIRE(ranks.group->all_gather<float>(Rank{0}, in.part(0, 50), values.view(), counts, ranks.streams[0]));
    REQUIRE(ranks.group->give_up(Rank{1}));
    auto const lost = ranks.streams[0].synchronize(Deadline::after(20s));
    REQUIRE_FALSE(lost);
    CHECK(lost.error().code() == ErrorCode::rank_lost);
    CHECK(lost.error().subject() == "all_gather");
    CHECK(lost.error().place() == "rank 1 (of all: rank 5)");
}

TEST_SUITE_END();
