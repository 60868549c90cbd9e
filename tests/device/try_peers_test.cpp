// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/device/try_peers.hpp>
#include <shardwise/comm/threads.hpp>

#include <doctest/doctest.h>

#include "fake_vendor.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::Fake;
using shardwise::testing::FakeApi;
using shardwise::testing::FakeMachine;

namespace {

/// What one rank of a trial has.
struct TriedRank {
    HostCommunicator& world;
    PeerGroup<FakeApi>& peers;
    Fake::Context& context;
    Fake::Stream& stream;
    std::chrono::microseconds limit;

    [[nodiscard]] Result<> attempt() const { return try_peers(world, peers, context, stream, limit); }
};

/// Ranks that are threads and share a device; what each of them answered.
std::vector<Result<>> answers(std::int32_t ranks, std::chrono::microseconds limit,
                              std::function<Result<>(TriedRank const&)> const& act) {
    std::vector<std::unique_ptr<Fake::Context>> owned;
    std::vector<Fake::Context*> contexts;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        owned.push_back(std::move(*Fake::Context::open({.device = 0, .limit = 30s})));
        contexts.push_back(owned.back().get());
    }
    auto const group = PeerGroup<FakeApi>::open(contexts, {.staging = Bytes{256}, .blocks = 1, .limit = 30s});
    REQUIRE(group);
    std::vector<Result<>> told(static_cast<std::size_t>(ranks));
    (void)run_threads(ranks, [&](Threads& threads) -> Result<> {
        HostCommunicator world(std::move(threads));
        auto& context = *contexts[static_cast<std::size_t>(world.rank())];
        auto stream = context.make_stream();
        auto& own = told[static_cast<std::size_t>(world.rank())];
        own = act({world, **group, context, stream, limit});
        return {};
    });
    return told;
}

std::vector<Result<>> try_all(std::int32_t ranks, std::chrono::microseconds limit) {
    return answers(ranks, limit, [](TriedRank const& rank) { return rank.attempt(); });
}

/// The machine as other tests expect it.
struct MendedMachine {
    MendedMachine() = default;
    MendedMachine(MendedMachine const&) = delete;
    MendedMachine& operator=(MendedMachine const&) = delete;
    ~MendedMachine() {
        FakeMachine::get().mend();
        FakeMachine::get().load_lazily(false);
        FakeMachine::get().run_kernels_in_turn(false);
    }
};

std::ptrdiff_t count(std::vector<Result<>> const& answers, ErrorCode code) {
    return std::count_if(answers.begin(), answers.end(),
                         [code](Result<> const& answer) { return !answer && answer.error().code() == code; });
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE("try_peers: ranks whose kernels meet have their group, and sum with it afterwards") {
    for (std::int32_t const ranks : {1, 2, 4}) {
        CAPTURE(ranks);
        auto const told = answers(ranks, 20s, [](TriedRank const& rank) -> Result<> {
            if (auto const works = rank.attempt(); !works) return works;
            std::vector<float> value(1, 1.0F);
            auto memory = Buffer<float, Fake>::allocate(rank.context, 1);
            if (!memory) return memory.error();
            TensorView<float const, 1, Host> const from(value.data(), {1});
            if (auto const sent = Fake::copy<float>(from, memory->view(), rank.stream); !sent) return sent;
            Buffer<float, Fake> const& sent = *memory;
            Rank const own{rank.world.rank()};
            auto const summed = all_reduce<float>(rank.peers, own, sent.view(), memory->view(), rank.stream);
            if (!summed) return summed;
            TensorView<float, 1, Host> const to(value.data(), {1});
            if (auto const back = Fake::copy<float>(sent.view(), to, rank.stream); !back) return back;
            if (auto const done = rank.stream.synchronize(Deadline::after(20s)); !done) return done;
            if (value[0] == static_cast<float>(rank.world.size())) return {};
            return Error{ErrorCode::invalid_argument}.in("test").because("is not the number of ranks");
        });
        for (auto const& answer : told) CHECK_MESSAGE(answer, (answer ? "" : answer.error().message()));
    }
}

TEST_CASE("try_peers: a rank that can put nothing into its stream says why, and ends the others' wait") {
    auto const begin = std::chrono::steady_clock::now();
    auto const told = answers(3, 20s, [](TriedRank const& rank) {
        if (rank.world.rank() == 1) rank.stream.fail(Error{ErrorCode::backend_failure}.in("own reason"));
        return rank.attempt();
    });
    REQUIRE_FALSE(told[1]);
    CHECK(told[1].error().subject() == "own reason");
    REQUIRE(count(told, ErrorCode::rank_lost) == 2);
    // One of the others has found that out, and ends the last one's wait.
    CHECK((told[0].error().place() == "rank 1" || told[2].error().place() == "rank 1"));
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
}

TEST_CASE("try_peers: whose own sums were right hears that another rank's were not") {
    MendedMachine const mended;
    // Each of two ranks copies its numbers there and its sums back: the last copy fails, on either of them.
    FakeMachine::get().fail("copy", 3);
    auto const told = try_all(2, 20s);
    CHECK(count(told, ErrorCode::backend_failure) == 1);
    REQUIRE(count(told, ErrorCode::unsupported) == 1);
    for (auto const& answer : told) {
        if (answer.error().code() != ErrorCode::unsupported) continue;
        CHECK(answer.error().message() == "peers: do not work on another rank's device; use staged collectives");
    }
}

TEST_CASE(
    "try_peers: a rank that ends while the others' kernels wait is every rank's error, after no more than the limit") {
    auto const begin = std::chrono::steady_clock::now();
    auto const told = answers(2, 1s, [](TriedRank const& rank) -> Result<> {
        if (rank.world.rank() == 0) {
            auto const answer = rank.attempt();
            // No kernel looks at the group's memory any more; the stream's last task may just be ending.
            for (int i = 0; i < 100 && FakeMachine::get().pending(0) > 0; ++i) std::this_thread::sleep_for(2ms);
            if (FakeMachine::get().pending(0) == 0) return answer;
            return Error{ErrorCode::invalid_argument}.in("test").because("leaves a kernel running");
        }
        // As try_peers does until the first rank's sums are in its stream.
        if (auto const met = barrier(rank.world); !met) return met;
        return rank.world.fail(Error{ErrorCode::invalid_argument}.in("own reason"));
    });
    for (auto const& answer : told) {
        REQUIRE_FALSE(answer);
        CHECK(answer.error().subject() == "own reason");
    }
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
}

TEST_CASE("try_peers: a driver that loads code only when nothing runs has loaded it by the first rank's turn") {
    MendedMachine const mended;
    FakeMachine::get().load_lazily(true);
    for (auto const& answer : try_all(3, 20s)) CHECK_MESSAGE(answer, (answer ? "" : answer.error().message()));
}

TEST_CASE("try_peers: kernels that a driver runs one after another are found out by the deadline") {
    MendedMachine const mended;
    FakeMachine::get().run_kernels_in_turn(true);
    auto const begin = std::chrono::steady_clock::now();
    auto const told = try_all(2, 300ms);
    CHECK(count(told, ErrorCode::deadline_exceeded) >= 1);
    for (auto const& answer : told) CHECK_FALSE(answer);
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
}

TEST_SUITE_END();
