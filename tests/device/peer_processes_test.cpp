// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/device/peer_processes.hpp>

#include <doctest/doctest.h>

#include "../comm/processes.hpp"
#include "collected.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <utility>
#include <vector>

// Peers whose ranks are processes: forked here, so of the fake vendor alone.

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::check_all_succeed;
using shardwise::testing::Fake;
using shardwise::testing::FakeApi;
using shardwise::testing::FakeMachine;
using shardwise::testing::ProcessOutcome;
using shardwise::testing::run_processes;

namespace {

/// What a rank has of its own.
struct Place {
    HostCommunicator& world;
    Fake::Context& context;
    Fake::Stream& stream;
};
using Body = std::function<Result<>(Place&)>;

Error wrong(std::string const& what) {
    return Error{ErrorCode::invalid_argument}.in("test").because(what);
}

/// What processes see of each other's progress.
struct Progress {
    std::atomic<int> steps[16];

    static std::shared_ptr<Progress> make() {
        auto* const memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        return {new (memory) Progress{}, [](Progress* progress) { munmap(progress, sizeof(Progress)); }};
    }
};

constexpr auto kernel_limit = 40s;

PeerOptions small() {
    return {.staging = Bytes{256}, .blocks = 1, .limit = kernel_limit};
}

/// Runs body in a process for each rank, each with a device of a machine that has one for each: rank r sees all of them and takes r.
std::vector<ProcessOutcome> run_ranks(std::int32_t ranks, Body const& body,
                                      std::function<void(std::int32_t)> const& prepare = {},
                                      std::function<void(std::vector<pid_t> const&)> const& meanwhile = {}) {
    static int number = 0;
    auto const key = "peer-processes-" + std::to_string(getpid()) + "-" + std::to_string(++number);
    std::vector<std::function<Result<>()>> bodies;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        bodies.emplace_back([=, &body]() -> Result<> {
            auto& machine = FakeMachine::get();
            machine.devices = ranks;
            machine.multiprocessors = 1;
            auto joined = SharedMemory::join(key, rank, ranks, {.timeout = 30s});
            if (!joined) return joined.error();
            HostCommunicator world(std::move(*joined));
            if (prepare) prepare(rank);
            auto const device = machine.devices == 1 ? 0 : rank % machine.devices;
            auto const opened = Fake::Context::open({.device = device, .limit = 30s});
            if (!opened) return opened.error();
            auto stream = (*opened)->make_stream();
            Place place{world, **opened, stream};
            auto done = body(place);
            return done ? done : world.fail(done.error());
        });
    }
    return run_processes(bodies, meanwhile, 100s);
}

int count_open() {
    int count = 0;
    for (int i = 0; i < 200; ++i) count += fcntl(i, F_GETFD) >= 0 ? 1 : 0;
    return count;
}

/// The collectives of a group of peers have the bits of staged ones, and nothing is left behind.
Result<> compare_with_staged(Place& place, PeerSharing sharing) {
    DeviceCommunicator<FakeApi> staged(place.world);
    auto const before = place.context.memory().current();
    {
        auto peers = join_peer_processes(place.world, place.context, place.stream, small());
        if (!peers) return peers.error();
        DeviceCommunicator<FakeApi> comm(place.world, std::move(*peers), place.stream);
        if (comm.kind() != "peers" || !comm.repeats() ||
            place.context.memory().current() != before + PeerGroup<FakeApi>::bytes_of_rank(small()))
            return wrong("does not hold what it says");
        if (comm.peers()->sharing() != sharing) return wrong("shares its memory otherwise");
        auto alike = testing::check_collected<Fake, float>(staged, comm, place.context, place.stream);
        if (alike) alike = testing::check_collected<Fake, Bfloat16>(staged, comm, place.context, place.stream);
        if (alike) alike = testing::check_collected<Fake, Float16>(staged, comm, place.context, place.stream);
        if (!alike) return alike;
    }
    if (place.context.memory().current() != before) return wrong("still counts the group's memory");
    if (FakeMachine::get().shared.early_releases() != 0) return wrong("memory went that another process had open");
    return {};
}
Result<> compare_by_handles(Place& place) {
    return compare_with_staged(place, PeerSharing::handles);
}
Result<> compare_by_descriptors(Place& place) {
    auto const before = count_open();
    auto const done = compare_with_staged(place, PeerSharing::descriptors);
    if (done && count_open() != before) return wrong("leaves descriptors open");
    return done;
}

/// Sums over peers until a rank is gone.
Result<> add_up_for_ever(Place& place, Progress& progress) {
    // The group of processes is complete.
    ++progress.steps[place.world.rank()];
    auto peers = join_peer_processes(place.world, place.context, place.stream, small());
    if (!peers) return peers.error();
    DeviceCommunicator<FakeApi> comm(place.world, std::move(*peers), place.stream);
    auto memory = Buffer<float, Fake>::allocate(place.context, 100);
    if (!memory) return memory.error();
    place.stream.submit(
        [&](FakeApi::Stream native) { return FakeApi::clear(memory->data(), 100 * sizeof(float), native); });
    auto const deadline = Deadline::after(60s);
    while (!deadline.has_passed()) {
        TensorView<float const, 1, Fake> const in = memory->view();
        // As a graph does it, two at a time without a word to the others; then as eager steps do.
        for (int i = 0; i < 2; ++i) {
            auto const put = comm.peers()->all_reduce<float>(comm.own_rank(), in, memory->view(), place.stream);
            if (!put) return put;
        }
        if (auto const done = place.stream.synchronize(Deadline::after(60s)); !done) return done;
        submit_all_reduce(comm, memory->view(), ReduceOp::sum, place.stream);
        if (auto const done = place.stream.synchronize(Deadline::after(60s)); !done) return done;
        ++progress.steps[comm.rank()];
    }
    return wrong("nobody has been killed");
}

/// Kills rank `victim` of so many at one of 20 points: at one of its calls of the vendor, of which the first ten points have one each,
/// or when it has done some sums and a while more. The others end soon, and name it.
void kill_one(std::int32_t ranks, std::int32_t victim, int point, PeerSharing sharing = PeerSharing::handles) {
    CAPTURE(ranks);
    CAPTURE(victim);
    CAPTURE(point);
    auto const progress = Progress::make();
    // A rank makes some 25 calls until it is ready, and as many in three turns.
    auto const prepare = [&](std::int32_t rank) {
        if (sharing == PeerSharing::descriptors) FakeMachine::get().refuse("open_shared");
        if (rank == victim && point < 10) FakeMachine::get().die_at_call(1 + point * 5);
    };
    auto const begin = std::chrono::steady_clock::now();
    std::chrono::nanoseconds killed_at{0};
    auto const meanwhile = [&](std::vector<pid_t> const& processes) {
        if (point < 10) return;
        auto const wanted = 1 + (point - 10) / 3;
        for (int i = 0; i < 40000 && progress->steps[victim] < wanted; ++i) std::this_thread::sleep_for(1ms);
        std::this_thread::sleep_for(std::chrono::microseconds(700 * (point - 10)));
        killed_at = std::chrono::steady_clock::now() - begin;
        kill(processes[static_cast<std::size_t>(victim)], SIGKILL);
    };
    auto const outcomes = run_ranks(
        ranks, [&](Place& place) { return add_up_for_ever(place, *progress); }, prepare, meanwhile);
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        CAPTURE(rank);
        auto const& outcome = outcomes[static_cast<std::size_t>(rank)];
        if (rank == victim) {
            CHECK_FALSE(outcome.has_answered);
            CHECK(WIFSIGNALED(outcome.status));
            continue;
        }
        REQUIRE_MESSAGE(outcome.has_answered, outcome.status);
        CHECK_FALSE(outcome.succeeded);
        // Not by the kernels' limit.
        CHECK(outcome.took - killed_at < kernel_limit);
        CHECK_MESSAGE(outcome.code == ErrorCode::rank_lost, outcome.message);
        CHECK_MESSAGE(outcome.message.find("rank " + std::to_string(victim)) != std::string::npos, outcome.message);
    }
}

}  // namespace

TEST_CASE("Peers of processes: ranks on one device without a service that runs both are refused alike, by name") {
    auto const outcomes = run_ranks(
        2,
        [](Place& place) -> Result<> {
            auto const before = FakeMachine::get().calls("allocate");
            auto const peers = join_peer_processes(place.world, place.context, place.stream, small());
            if (peers) return wrong("is a group");
            if (FakeMachine::get().calls("allocate") != before) return wrong("has allocated");
            // The group of processes goes on.
            if (auto const met = barrier(place.world); !met) return met;
            return peers.error();
        },
        [](std::int32_t) { FakeMachine::get().devices = 1; });
    for (auto const& outcome : outcomes) {
        CHECK(outcome.code == ErrorCode::unsupported);
        CHECK_MESSAGE(
            outcome.message.find("rank 1 on fake:0 shares its device with rank 0 on fake:0") != std::string::npos,
            outcome.message);
    }
}

TEST_CASE("Peers of processes: what fails on one rank is every rank's error, with that rank and its device") {
    struct Failure {
        char const* call;
        char const* words;
    };
    for (auto const& [call, words] : {Failure{"uuid", "peers: rank 1 on fake:1"},
                                      {"runs_processes_at_once", "peers: rank 1 on fake:1"},
                                      {"allocate", "peers: rank 1 on fake:1"},
                                      {"export_shared", "peers: rank 1 on fake:1"},
                                      {"open_shared", "cannot reach the memory of rank 0 on fake:0"},
                                      {"enable_peer", "cannot reach the memory of rank 0 on fake:0"}}) {
        auto const* const name = call;
        CAPTURE(name);
        auto const outcomes = run_ranks(3, [&](Place& place) -> Result<> {
            auto const before = FakeMachine::get().memory.load();
            if (place.world.rank() == 1) {
                FakeMachine::get().fail(name);
                FakeMachine::get().refuse("allocate_mapped");
            }
            auto const peers = join_peer_processes(place.world, place.context, place.stream, small());
            if (peers) return wrong("is a group");
            FakeMachine::get().mend();
            if (auto const met = barrier(place.world); !met) return met;
            if (FakeMachine::get().memory != before) return wrong("leaves memory behind");
            if (FakeMachine::get().shared.early_releases() != 0) return wrong("memory went that was open");
            return peers.error();
        });
        for (auto const& outcome : outcomes) {
            auto const* const wanted = words;
            CHECK_MESSAGE(outcome.message.find(wanted) != std::string::npos, outcome.message);
            CHECK_MESSAGE(outcome.message.find("rank 1 on fake:1") != std::string::npos, outcome.message);
        }
    }
}

TEST_CASE("Peers of processes: where handles are refused, what fails of descriptors is every rank's error, too") {
    for (auto const* const call : {"allocate_mapped", "export_mapped", "open_mapped"}) {
        CAPTURE(call);
        auto const outcomes = run_ranks(3, [&](Place& place) -> Result<> {
            auto const before = FakeMachine::get().memory.load();
            auto const files = count_open();
            // One rank is refused the one, and another one the other.
            if (place.world.rank() == 2) FakeMachine::get().refuse("export_shared");
            if (place.world.rank() == 1) FakeMachine::get().fail(call);
            auto const peers = join_peer_processes(place.world, place.context, place.stream, small());
            if (peers) return wrong("is a group");
            FakeMachine::get().mend();
            if (auto const met = barrier(place.world); !met) return met;
            if (FakeMachine::get().memory != before) return wrong("leaves memory behind");
            if (count_open() != files) return wrong("leaves descriptors open");
            if (FakeMachine::get().shared.early_releases() != 0) return wrong("memory went that was open");
            return peers.error();
        });
        for (auto const& outcome : outcomes) {
            CHECK_MESSAGE(outcome.message.find("rank 2 on fake:2") != std::string::npos, outcome.message);
            CHECK_MESSAGE(outcome.message.find("; by descriptors: peers: rank 1 on fake:1") != std::string::npos,
                          outcome.message);
        }
    }
}

TEST_CASE("Peers of processes: ranks that ask for unlike groups are told so") {
    auto const outcomes = run_ranks(2, [](Place& place) -> Result<> {
        auto options = small();
        options.staging = Bytes{256 * (1 + place.world.rank())};
        auto const peers = join_peer_processes(place.world, place.context, place.stream, options);
        return peers ? Result<>{} : Result<>{peers.error()};
    });
    for (auto const& outcome : outcomes) CHECK(outcome.code == ErrorCode::invalid_argument);
}

TEST_SUITE_BEGIN("fibers");

TEST_CASE("Peers of processes: collectives have the bits of staged ones over 2 to 8 processes") {
    for (std::int32_t const ranks : {2, 3, 8}) {
        CAPTURE(ranks);
        check_all_succeed(run_ranks(ranks, compare_by_handles));
    }
}

TEST_CASE("Peers of processes: a rank that sees its own device alone, or shares one that runs both, works as well") {
    check_all_succeed(run_ranks(3, compare_by_handles, [](std::int32_t rank) {
        FakeMachine::get().first_device = rank;
        FakeMachine::get().devices = 1;
    }));
    check_all_succeed(run_ranks(2, compare_by_handles, [](std::int32_t) {
        FakeMachine::get().devices = 1;
        FakeMachine::get().multiprocessors = 2;
        FakeMachine::get().runs_processes_at_once = true;
    }));
}

TEST_CASE("Peers of processes: where one rank is refused handles, all share their memory by descriptors") {
    for (auto const* const call : {"open_shared", "export_shared"}) {
        for (std::int32_t const ranks : {2, 3, 8}) {
            CAPTURE(call);
            CAPTURE(ranks);
            check_all_succeed(run_ranks(ranks, compare_by_descriptors, [&](std::int32_t rank) {
                if (rank == ranks - 1) FakeMachine::get().refuse(call);
            }));
        }
    }
    check_all_succeed(run_ranks(3, compare_by_descriptors, [](std::int32_t rank) {
        FakeMachine::get().refuse("open_shared");
        FakeMachine::get().first_device = rank;
        FakeMachine::get().devices = 1;
    }));
}

TEST_CASE("Peers of processes: whoever is killed where handles are refused is named by all others, too") {
    // In the midst of the exchange of descriptors.
    for (auto const* const call : {"allocate_mapped", "export_mapped", "open_mapped"}) {
        CAPTURE(call);
        auto const outcomes = run_ranks(
            3,
            [&](Place& place) -> Result<> {
                auto const peers = join_peer_processes(place.world, place.context, place.stream, small());
                return peers ? wrong("is a group") : peers.error();
            },
            [&](std::int32_t rank) {
                FakeMachine::get().refuse("open_shared");
                if (rank == 1) FakeMachine::get().die_at(call);
            });
        CHECK_FALSE(outcomes[1].has_answered);
        for (auto const rank : {std::size_t{0}, std::size_t{2}}) {
            auto const& outcome = outcomes[rank];
            REQUIRE_MESSAGE(outcome.has_answered, outcome.status);
            CHECK_MESSAGE(outcome.message.find("rank 1: ") != std::string::npos, outcome.message);
            CHECK(outcome.took < kernel_limit / 2);
        }
    }
    int point = 1;
    for (std::int32_t const ranks : {2, 3, 5}) {
        for (int i = 0; i < 4; ++i, point = (point + 3) % 20)
            kill_one(ranks, point % ranks, point, PeerSharing::descriptors);
    }
}

TEST_CASE("Peers of processes: whoever is killed is named by all others, who wait no longer for it") {
    int point = 0;
    for (std::int32_t const ranks : {2, 3, 5}) {
        for (int i = 0; i < 3; ++i, point = (point + 7) % 20) kill_one(ranks, point % ranks, point);
    }
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("long");

TEST_CASE("Peers of processes: collectives over every number of processes to 8") {
    for (std::int32_t ranks = 2; ranks <= 8; ++ranks) {
        CAPTURE(ranks);
        check_all_succeed(run_ranks(ranks, compare_by_handles));
    }
}

TEST_CASE("Peers of processes: 200 runs of which a rank is killed, at 20 points, none hangs") {
    for (int run = 0; run < 100; ++run) {
        auto const ranks = 2 + run % 7;
        kill_one(ranks, (run / 7) % ranks, run % 20);
        kill_one(ranks, (run / 7) % ranks, run % 20, PeerSharing::descriptors);
    }
}

TEST_SUITE_END();
