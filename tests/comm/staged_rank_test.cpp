// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

using namespace shardwise;

TEST_CASE("StagedRank: once the group has failed nothing is written, where a late rank may still read or write") {
    constexpr std::size_t chunk = 4096;
    auto* const memory =
        ::operator new (detail::GroupRegion::bytes(2, chunk), std::align_val_t{detail::line_pair_bytes});
    detail::StagedRank<detail::NobodyDies> rank(*detail::GroupRegion::create(memory, 2, chunk), 0, {}, {});
    auto* const place = rank.mine(2048);
    std::vector<std::byte> const first(2048, std::byte{1});
    std::vector<std::byte> const second(2048, std::byte{2});
    rank.put(place, first.data(), first.size());
    (void)rank.fail(Error{ErrorCode::deadline_exceeded});
    rank.put(place, second.data(), second.size());
    CHECK(std::equal(first.begin(), first.end(), place));
    ::operator delete (memory, std::align_val_t{detail::line_pair_bytes});
}

TEST_CASE("StagedRank: steps of real threads go on where the count of steps wraps around") {
    constexpr std::size_t chunk = 64;
    auto const bytes = detail::GroupRegion::bytes(2, chunk);
    auto* const memory = ::operator new (bytes, std::align_val_t{detail::line_pair_bytes});
    auto* const region = detail::GroupRegion::create(memory, 2, chunk, UINT32_MAX - 20U);
    std::atomic<int> wrong{0};
    auto const run = [&](std::int32_t number) {
        detail::StagedRank<detail::NobodyDies> rank(*region, number, {}, {});
        for (std::int32_t turn = 0; turn < 50; ++turn) {
            rank.begin({});
            auto const sent = turn * 10 + number;
            rank.put(rank.mine(sizeof sent), &sent, sizeof sent);
            if (!rank.step()) wrong.fetch_add(1);
            std::int32_t received = 0;
            std::memcpy(&received, rank.theirs(1 - number), sizeof received);
            if (received != turn * 10 + 1 - number) wrong.fetch_add(1);
        }
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    CHECK(wrong.load() == 0);
    ::operator delete (memory, std::align_val_t{detail::line_pair_bytes});
}
