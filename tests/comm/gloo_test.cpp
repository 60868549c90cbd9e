// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/gloo.hpp>

#include <doctest/doctest.h>

#include "../comm/collective_cases.hpp"
#include "../comm/gloo_ranks.hpp"
#include "../comm/names_of_parts.hpp"
#include "skip.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gloo/config.h>
#include <malloc.h>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::flat;
using shardwise::testing::GlooBody;
using shardwise::testing::MeetingFolder;
using shardwise::testing::ProcessOutcome;
using shardwise::testing::run_gloo_ranks;
using shardwise::testing::run_processes;

namespace {

Result<> reduce_until_failure(Gloo& comm) {
    std::vector<float> data(100, 1.0F);
    while (true) {
        if (auto const done = all_reduce(comm, flat(data)); !done) return done;
    }
}

bool run_command(std::string const& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Two network namespaces with a link between them, 10.77.0.1 and 10.77.0.2.
class TwoHosts {
public:
    TwoHosts() {
        auto const both = [&](std::string const& in_a, std::string const& in_b) {
            return run_command("ip netns exec " + name(0) + " " + in_a) &&
                   run_command("ip netns exec " + name(1) + " " + in_b);
        };
        is_made_ = run_command("ip netns add " + name(0)) && run_command("ip netns add " + name(1)) &&
                   run_command("ip -n " + name(0) + " link add sw0 type veth peer name sw1 netns " + name(1)) &&
                   both("ip addr add 10.77.0.1/24 dev sw0", "ip addr add 10.77.0.2/24 dev sw1") &&
                   both("ip link set sw0 up", "ip link set sw1 up") && both("ip link set lo up", "ip link set lo up");
    }
    ~TwoHosts() {
        run_command("ip netns del " + name(0));
        run_command("ip netns del " + name(1));
    }
    TwoHosts(TwoHosts const&) = delete;
    TwoHosts& operator=(TwoHosts const&) = delete;

    [[nodiscard]] bool is_made() const { return is_made_; }
    [[nodiscard]] static std::string address(std::size_t rank) { return rank == 0 ? "10.77.0.1" : "10.77.0.2"; }
    /// Moves the calling process to a host.
    [[nodiscard]] bool enter(std::size_t rank) const {
        auto const path = "/var/run/netns/" + name(rank);
        auto const space = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        bool const is_there = space >= 0 && setns(space, CLONE_NEWNET) == 0;
        if (space >= 0) close(space);
        return is_there;
    }
    void take_link_down() const { run_command("ip -n " + name(0) + " link set sw0 down"); }
    /// Packets still leave, but nobody has the addresses that they go to.
    void open_black_hole() const {
        run_command("ip -n " + name(0) + " neigh replace 10.77.0.2 dev sw0 lladdr 02:00:00:00:00:99 nud permanent");
        run_command("ip -n " + name(1) + " neigh replace 10.77.0.1 dev sw1 lladdr 02:00:00:00:00:99 nud permanent");
    }

private:
    [[nodiscard]] std::string name(std::size_t rank) const {
        return "sw" + std::to_string(owner_) + (rank == 0 ? "a" : "b");
    }

    pid_t owner_ = getpid();
    bool is_made_ = false;
};

struct Partition {
    std::vector<ProcessOutcome> outcomes;
    std::chrono::nanoseconds cut_at{};
};

/// Both ranks run `body` on hosts of their own; a moment after they are connected the network fails.
Partition run_apart(TwoHosts const& hosts, GlooBody const& body, std::function<void()> const& cut) {
    MeetingFolder const folder;
    std::vector<std::function<Result<>()>> processes;
    for (std::size_t rank = 0; rank < 2; ++rank) {
        processes.emplace_back([&, rank]() -> Result<> {
            if (!hosts.enter(rank)) return Error{ErrorCode::backend_failure}.in("setns");
            auto comm = Gloo::join(folder.path(), static_cast<std::int32_t>(rank), 2,
                                   {.timeout = 30s, .address = TwoHosts::address(rank)});
            if (!comm) return comm.error();
            std::filesystem::create_directory(folder.path() + "/connected-" + std::to_string(rank));
            return body(*comm);
        });
    }
    Partition partition;
    auto const begin = std::chrono::steady_clock::now();
    auto const meanwhile = [&](std::vector<pid_t> const&) {
        auto const is_connected = [&](char const* rank) {
            return std::filesystem::exists(folder.path() + "/connected-" + rank);
        };
        for (int turn = 0; turn < 1000 && !(is_connected("0") && is_connected("1")); ++turn)
            std::this_thread::sleep_for(10ms);
        std::this_thread::sleep_for(200ms);
        cut();
        partition.cut_at = std::chrono::steady_clock::now() - begin;
    };
    partition.outcomes = run_processes(processes, meanwhile);
    return partition;
}

void check_partition(Partition const& partition, std::chrono::nanoseconds limit) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
        auto const& outcome = partition.outcomes[rank];
        CAPTURE(rank);
        CAPTURE(outcome.message);
        REQUIRE(outcome.has_answered);
        CHECK_FALSE(outcome.succeeded);
        CHECK(outcome.code == ErrorCode::rank_lost);
        CHECK(outcome.message.find("rank " + std::to_string(1 - rank) + ": is cut off by a network partition") !=
              std::string::npos);
        CHECK(outcome.took - partition.cut_at < limit);
    }
}

/// A rank waits while the network is idle: the other sleeps first.
Result<> wait_idly(Gloo& comm) {
    if (auto const done = barrier(comm); !done) return done;
    std::vector<float> data(4);
    // Each waits for what the other never sends.
    return receive(comm, flat(data), 1 - comm.rank());
}

Result<> transfer_for_ever(Gloo& comm) {
    std::vector<float> data(1 << 20, 1.0F);
    while (true) {
        if (auto const done = all_reduce(comm, flat(data)); !done) return done;
    }
}

}  // namespace

TEST_CASE("Gloo: the cases that all communicators share, between forked processes") {
    for (std::size_t const ranks : {1U, 2U, 4U}) {
        GlooBody const body = [](Gloo& comm) { return shardwise::testing::check_collectives(comm, 300'003); };
        for (auto const& outcome : run_gloo_ranks(std::vector<GlooBody>(ranks, body))) {
            CAPTURE(ranks);
            CAPTURE(outcome.message);
            CHECK(outcome.succeeded);
        }
    }
}

TEST_CASE("Gloo: calls and letters that differ are refused on every rank that sees them") {
    auto const reduce = [](std::size_t count) {
        return [count](Gloo& comm) {
            std::vector<float> data(count);
            return all_reduce(comm, flat(data));
        };
    };
    for (auto const& outcome : run_gloo_ranks({reduce(5), reduce(6), reduce(5)})) {
        CAPTURE(outcome.message);
        CHECK(outcome.code == ErrorCode::collective_mismatch);
        CHECK(outcome.message.find("fp32 x 5") != std::string::npos);
        CHECK(outcome.message.find("fp32 x 6") != std::string::npos);
    }
    // Gloo ends a process that receives more than it expects.
    auto const gather = [](std::int64_t first, std::int64_t second) {
        return [=](Gloo& comm) {
            std::int64_t const counts[] = {first, second};
            std::vector<float> own(static_cast<std::size_t>(counts[comm.rank()]));
            std::vector<float> all(static_cast<std::size_t>(first + second));
            return all_gather<float>(comm, flat(own), flat(all), counts);
        };
    };
    for (auto const& outcome : run_gloo_ranks({gather(3, 5), gather(5, 3)})) {
        CAPTURE(outcome.message);
        CHECK(outcome.code == ErrorCode::collective_mismatch);
        CHECK(outcome.message.find("all_gather fp32 x 8, with 5 for rank 0") != std::string::npos);
    }
    GlooBody const sends = [](Gloo& comm) {
        std::vector<float> data(8);
        if (auto const done = send(comm, flat(std::as_const(data)), 1); !done) return done;
        return barrier(comm);
    };
    GlooBody const receives = [](Gloo& comm) {
        std::vector<float> data(7);
        return receive(comm, flat(data), 0);
    };
    auto const letters = run_gloo_ranks({sends, receives});
    CHECK(letters[1].message.find("sends fp32 x 8 where rank 1 receives fp32 x 7") != std::string::npos);
    // The other learns why.
    CHECK_FALSE(letters[0].succeeded);
}

TEST_CASE("Gloo: a rank that is killed is named, one that never calls is named at the deadline, and no call hangs") {
    GlooBody const dies = [](Gloo& comm) -> Result<> {
        std::vector<float> data(100, 1.0F);
        for (int turn = 0; turn < 20; ++turn) {
            if (auto const done = all_reduce(comm, flat(data)); !done) return done;
        }
        kill(getpid(), SIGKILL);
        return {};
    };
    auto const killed = run_gloo_ranks({reduce_until_failure, reduce_until_failure, dies}, {.timeout = 60s});
    for (std::size_t rank = 0; rank < 2; ++rank) {
        CAPTURE(killed[rank].message);
        CHECK(killed[rank].code == ErrorCode::rank_lost);
        CHECK(killed[rank].took < 10s);
    }
    bool const is_named = killed[0].message.find("rank 2: closed its connection") != std::string::npos ||
                          killed[1].message.find("rank 2: closed its connection") != std::string::npos;
    CHECK(is_named);

    GlooBody const sleeps = [](Gloo& comm) {
        std::this_thread::sleep_for(1200ms);
        return barrier(comm);
    };
    auto const late = run_gloo_ranks({reduce_until_failure, sleeps}, {.timeout = 400ms});
    CAPTURE(late[0].message);
    CHECK(late[0].code == ErrorCode::deadline_exceeded);
    CHECK(late[0].message.find("by rank 1") != std::string::npos);
    CHECK_FALSE(late[1].succeeded);
}

TEST_CASE("Gloo: ranks that never come, come twice, or mean another group are named") {
    MeetingFolder const folders[3];
    auto const join = [&](std::size_t folder, std::int32_t rank, std::int32_t ranks) {
        return [&, folder, rank, ranks]() -> Result<> {
            auto const comm = Gloo::join(folders[folder].path(), rank, ranks, {.timeout = 400ms});
            return comm ? Result<>{} : comm.error();
        };
    };
    for (auto const& outcome : run_processes({join(0, 0, 3), join(0, 2, 3)})) {
        CHECK(outcome.code == ErrorCode::deadline_exceeded);
        CHECK(outcome.message.find("was never joined by rank 1") != std::string::npos);
    }
    auto const twice = run_processes({join(1, 0, 2), join(1, 0, 2)});
    CHECK(int{twice[0].code == ErrorCode::invalid_argument} + int{twice[1].code == ErrorCode::invalid_argument} == 1);
    auto const sizes = run_processes({join(2, 0, 2), join(2, 1, 3)});
    CHECK(sizes[0].message.find("another size") != std::string::npos);
    CHECK(sizes[1].message.find("another size") != std::string::npos);
    CHECK(Gloo::join("/tmp", 1, 1).error().code() == ErrorCode::invalid_argument);
    CHECK(Gloo::join("/no/such/folder", 0, 1).error().code() == ErrorCode::backend_failure);
}

TEST_CASE("Gloo: what fails after the deadline is told in its own words") {
    MeetingFolder const folder;
    auto const create = [&](std::string const& address) {
        auto const wire = detail::GlooWire::create(folder.path(), 0, 2, address, 3s, Deadline::after({}));
        return wire ? Error{ErrorCode::unsupported} : wire.error();
    };
    // Nobody was waited for yet.
    auto const nowhere = create("300.300.300.300");
    CAPTURE(nowhere.message());
    CHECK(nowhere.code() == ErrorCode::backend_failure);
    CHECK(nowhere.message().find("the address 300.300.300.300 is unknown") != std::string::npos);
    auto const waits = create("127.0.0.1");
    CAPTURE(waits.message());
    CHECK(waits.code() == ErrorCode::deadline_exceeded);
    CHECK(waits.message().find("rank 1 came, but did not connect in time (the deadline has passed)") !=
          std::string::npos);
}

TEST_CASE("Gloo: a rank that is killed is named while another is only late") {
    // Until rank 0 gives up.
    GlooBody const late = [](Gloo& comm) {
        if (auto const done = barrier(comm); !done) return done;
        std::vector<float> data(1);
        return receive(comm, flat(data), 0);
    };
    GlooBody const dies = [](Gloo& comm) -> Result<> {
        (void)barrier(comm);
        // All are connected, and have left the barrier.
        std::this_thread::sleep_for(300ms);
        kill(getpid(), SIGKILL);
        return {};
    };
    GlooBody const reduces = [](Gloo& comm) {
        auto const done = barrier(comm);
        return done ? reduce_until_failure(comm) : done;
    };
    auto const outcomes = run_gloo_ranks({reduces, late, dies}, {.timeout = 40s});
    CAPTURE(outcomes[0].message);
    CHECK(outcomes[0].code == ErrorCode::rank_lost);
    CHECK(outcomes[0].message.find("rank 2: closed its connection") != std::string::npos);
    CHECK(outcomes[0].took < 30s);
}

TEST_CASE("Gloo: who leaves a part of a group, but not the group, is named to the others of the part") {
    GlooBody const leaves = [](Gloo& comm) -> Result<> {
        if (auto const part = comm.split(0); !part) return part.error();
        // The connection stays until the other is done.
        std::vector<float> data(1);
        (void)receive(comm, flat(data), 0);
        return {};
    };
    GlooBody const stays = [](Gloo& comm) -> Result<> {
        auto part = comm.split(0);
        return part ? barrier(*part) : part.error();
    };
    auto const outcomes = run_gloo_ranks({stays, leaves}, {.timeout = 20s});
    CAPTURE(outcomes[0].message);
    CHECK(outcomes[0].code == ErrorCode::rank_lost);
    CHECK(outcomes[0].message.find("rank 1: left the group") != std::string::npos);
}

TEST_CASE(
    "Gloo: every error of a part names its ranks by their numbers in the whole, too, and is the whole's from then on") {
    std::vector<GlooBody> bodies{[](Gloo& comm) { return shardwise::testing::leave_part(comm); },
                                 [](Gloo& comm) { return shardwise::testing::leave_part(comm, true); }};
    for (auto const& fault : shardwise::testing::faults_of_parts<Gloo>()) {
        bodies.emplace_back([fault](Gloo& comm) -> Result<> {
            if (comm.rank() % 2 == 0) {
                // The failure of the other part is that of the whole.
                auto const part = comm.split(0);
                (void)barrier(comm);
                return {};
            }
            if (auto const named = check_fault_of_parts(comm, fault); !named) return named;
            return shardwise::testing::expect_words(barrier(comm), fault.words);
        });
    }
    for (auto const& body : bodies) {
        for (auto const& outcome : run_gloo_ranks({body, body, body, body})) {
            CAPTURE(outcome.message);
            CHECK(outcome.succeeded);
        }
    }
}

TEST_CASE("Gloo: groups that are made and left take no memory for good") {
    GlooBody const many = [](Gloo& comm) -> Result<> {
        std::size_t before = 0;
        for (int turn = 0; turn < 600; ++turn) {
            if (turn == 100) before = mallinfo2().uordblks;
            auto part = comm.split(0);
            if (!part) return part.error();
            if (auto const done = barrier(*part); !done) return done;
        }
        auto const grown = static_cast<std::int64_t>(mallinfo2().uordblks) - static_cast<std::int64_t>(before);
        // A kilobyte for each group would be 500 KB.
        if (grown > 250'000) return Error{ErrorCode::out_of_memory}.in("groups").got(grown);
        return {};
    };
    for (auto const& outcome : run_gloo_ranks({many, many})) {
        CAPTURE(outcome.message);
        CHECK(outcome.succeeded);
    }
}

namespace {

/// Rows 6 and 7 of facts/reliability.md.
void check_partitions(std::chrono::nanoseconds limit) {
    for (bool const is_idle : {true, false}) {
        TwoHosts const hosts;
        if (!hosts.is_made()) {
            shardwise::testing::note_absent_tool("ip netns (network namespaces: iproute2, and the right to make them)");
            return;
        }
        if (is_idle)
            check_partition(run_apart(hosts, wait_idly, [&] { hosts.take_link_down(); }), limit);
        else
            check_partition(run_apart(hosts, transfer_for_ever, [&] { hosts.open_black_hole(); }), limit);
    }
}

}  // namespace

TEST_SUITE("timing") {
    // Times ten; the exact limit is in the suite "long".
    TEST_CASE("Gloo: a link that goes down and a black hole in mid-transfer are partitions to both sides") {
        check_partitions(40s);
    }
}

TEST_SUITE("long") {
    TEST_CASE("Gloo: a partition is known to both sides within 4 s") {
        check_partitions(4s);
    }
}
