// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/shared_memory.hpp>

#include <doctest/doctest.h>

#include "../comm/refuse_call.hpp"
#include "../comm/shared_memory_ranks.hpp"
#include "skip.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using namespace shardwise::testing::shared_memory;
using shardwise::testing::ProcessOutcome;
using shardwise::testing::run_processes;

namespace {

using Region = shardwise::detail::SharedRegion;
using shardwise::detail::GroupBeacon;
using shardwise::detail::RunningGroup;

Error stuck() {
    return Error{ErrorCode::unsupported}.because("the others did not come so far");
}

std::function<Result<>()> join_and_meet(std::string const& key, std::int32_t rank, std::int32_t ranks,
                                        SharedMemoryOptions const& options = {.timeout = 40s}) {
    return [=]() -> Result<> {
        auto comm = SharedMemory::join(key, rank, ranks, options);
        return comm ? barrier(*comm) : comm.error();
    };
}

struct Late {
    ProcessOutcome outcome;
    std::chrono::nanoseconds took{};
    std::vector<pid_t> running;
};

/// Two ranks run; a third process joins under their key. They meet before and after it.
Late join_late(std::int32_t rank, std::int32_t ranks, std::chrono::nanoseconds timeout = 40s,
               std::function<bool()> const& prepare = {}) {
    Stage const stage;
    auto const key = fresh_key();
    auto const run = [&, key](std::int32_t own) {
        return [&, key, own]() -> Result<> {
            if (prepare && !prepare()) return Error{ErrorCode::unsupported}.in("seccomp");
            auto comm = SharedMemory::join(key, own, 2, {.timeout = 40s});
            if (!comm) return comm.error();
            if (auto const met = barrier(*comm); !met) return met;
            stage.step();
            return stage.await(3) ? barrier(*comm) : stuck();
        };
    };
    Late late;
    auto* const took = static_cast<std::chrono::nanoseconds*>(
        mmap(nullptr, sizeof late.took, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    auto const comes_late = [&, key]() -> Result<> {
        if (!stage.await(2)) return stuck();
        auto const begin = std::chrono::steady_clock::now();
        auto const comm = SharedMemory::join(key, rank, ranks, {.timeout = timeout});
        *took = std::chrono::steady_clock::now() - begin;
        stage.step();
        return comm ? Result<>{} : comm.error();
    };
    auto const outcomes = run_processes({run(0), run(1), comes_late},
                                        [&](std::vector<pid_t> const& processes) { late.running = processes; });
    for (std::size_t own = 0; own < 2; ++own) {
        CAPTURE(outcomes[own].message);
        CHECK(outcomes[own].succeeded);
    }
    late.outcome = outcomes[2];
    late.took = *took;
    munmap(took, sizeof late.took);
    return late;
}

/// A late duplicate, and ranks of worlds of other sizes, of which one lies beyond the group's.
void check_late_ranks(std::chrono::nanoseconds limit) {
    struct Try {
        std::int32_t rank;
        std::int32_t ranks;
        std::size_t named;
    };
    for (auto const& each : {Try{1, 2, 1}, Try{0, 2, 0}, Try{1, 3, 1}, Try{5, 6, 1}, Try{0, 1, 0}}) {
        auto const late = join_late(each.rank, each.ranks);
        CAPTURE(late.outcome.message);
        CHECK(late.outcome.code == ErrorCode::invalid_argument);
        CHECK(late.took < limit);
        auto const process = "in process " + std::to_string(late.running[each.named]);
        auto const words =
            each.ranks == 2 ? "rank: runs already " + process + " (got " + std::to_string(each.rank) + ")"
                            : "belongs to a group of another size that runs, with rank " + std::to_string(each.named) +
                                  " " + process + " (got " + std::to_string(each.ranks) + ", expected 2)";
        CHECK(late.outcome.message.find(words) != std::string::npos);
    }
    CHECK(leaves_nothing_behind());
}

}  // namespace

// facts/reliability.md, row 14, times ten: the exact limits are in the suite "long".
TEST_CASE("SharedMemory: who joins under the key of a group that runs is refused with the process that has the rank") {
    check_late_ranks(10s);
}

TEST_CASE("SharedMemory: who finds the name gone in the moment in which a group became complete is refused, too") {
    Stage const stage;
    auto const key = fresh_key();
    auto const complete = Region::open(key, 2, 4096, Deadline::after(20s));
    REQUIRE(complete);
    for (std::int32_t const rank : {0, 1}) {
        complete->region().slot(rank).process.store(getpid());
        CHECK(complete->count_in());
    }
    complete->forget_name();
    // It waits in a group of its own when the other one is seen.
    auto const joins = [&, key]() -> Result<> {
        auto const when_seen = [&]() -> std::optional<Error> {
            stage.step();
            if (!stage.await(1000)) return stuck();
            return std::nullopt;
        };
        return join_and_meet(key, 1, 2, {.timeout = 40s, .gives_up = when_seen})();
    };
    GroupBeacon beacon;
    auto const outcome = run_processes({joins}, [&](std::vector<pid_t> const&) {
        CHECK(stage.await(1));
        beacon = GroupBeacon(Region::number_of(key), complete->descriptor());
        for (int i = 0; i < 1000; ++i) stage.step();
    })[0];
    CAPTURE(outcome.message);
    CHECK(outcome.code == ErrorCode::invalid_argument);
    CHECK(outcome.message.find("runs already in process " + std::to_string(getpid())) != std::string::npos);
    CHECK(outcome.took < 10s);
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: the processes of a group may join under its key again while it lives") {
    for (bool const has_failed : {false, true}) {
        auto const rejoin = [key = fresh_key(), has_failed](std::int32_t rank) {
            return [=]() -> Result<> {
                auto first = SharedMemory::join(key, rank, 2, {.timeout = 40s});
                if (!first) return first.error();
                if (has_failed) (void)first->fail(Error{ErrorCode::backend_failure}.in("test"));
                // Another number is none of another process's.
                auto second = SharedMemory::join(key, 1 - rank, 2, {.timeout = 40s});
                if (!second) return second.error();
                if (auto const met = barrier(*second); !met) return met;
                return has_failed ? Result<>{} : barrier(*first);
            };
        };
        for (auto const& outcome : run_processes({rejoin(0), rejoin(1)})) {
            CAPTURE(has_failed);
            CAPTURE(outcome.message);
            CHECK(outcome.succeeded);
        }
    }
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: a job whose processes were killed starts again, though a fork of them holds what they held") {
    Stage const stage;
    auto const key = fresh_key();
    auto const runs = [&, key](std::int32_t rank) {
        return [&, key, rank]() -> Result<> {
            auto const comm = SharedMemory::join(key, rank, 2, {.timeout = 40s});
            if (!comm) return comm.error();
            if (fork() == 0) {
                stage.step();
                (void)stage.await(5);
                _exit(0);
            }
            return stage.await(5) ? Result<>{} : stuck();
        };
    };
    std::vector<ProcessOutcome> next;
    run_processes({runs(0), runs(1)}, [&](std::vector<pid_t> const& processes) {
        CHECK(stage.await(2));
        CHECK(RunningGroup::of(key));
        for (auto const process : processes) kill(process, SIGKILL);
        for (auto const process : processes) {
            // Its end is not asked for, so that it has a number still.
            siginfo_t end{};
            waitid(P_PID, static_cast<id_t>(process), &end, WEXITED | WNOWAIT);
        }
        next = run_processes({join_and_meet(key, 0, 3), join_and_meet(key, 1, 3), join_and_meet(key, 2, 3)});
        for (int i = 0; i < 3; ++i) stage.step();
    });
    REQUIRE(next.size() == 3);
    for (auto const& outcome : next) {
        CAPTURE(outcome.message);
        CHECK(outcome.succeeded);
    }
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: a group that failed, or that a rank has left, keeps nobody from its key") {
    for (bool const fails : {true, false}) {
        Stage const stage;
        auto const key = fresh_key();
        auto const ends = [&, key](std::int32_t rank) {
            return [&, key, rank]() -> Result<> {
                auto comm = SharedMemory::join(key, rank, 2, {.timeout = 40s});
                if (!comm) return comm.error();
                if (rank == 0 && fails) (void)comm->fail(Error{ErrorCode::backend_failure}.in("test"));
                if (rank == 0 && !fails) auto const gone = std::move(*comm);
                stage.step();
                return stage.await(4) ? Result<>{} : stuck();
            };
        };
        auto const next = [&, key](std::int32_t rank) {
            return [&, key, rank]() -> Result<> {
                if (!stage.await(2)) return stuck();
                auto const met = join_and_meet(key, rank, 2)();
                stage.step();
                return met;
            };
        };
        for (auto const& outcome : run_processes({ends(0), ends(1), next(0), next(1)})) {
            CAPTURE(fails);
            CAPTURE(outcome.message);
            CHECK(outcome.succeeded);
        }
    }
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: a rank that is started anew meets the other processes that join again") {
    Stage const stage;
    auto const key = fresh_key();
    auto const again = [&, key](std::int32_t rank) {
        return [&, key, rank]() -> Result<> {
            auto const first = SharedMemory::join(key, rank, 3, {.timeout = 40s});
            if (!first) return first.error();
            stage.step();
            // The new process comes first: these ranks do not know yet that one has died.
            if (!stage.await(4)) return stuck();
            return join_and_meet(key, rank, 3)();
        };
    };
    auto const dies = [&, key]() -> Result<> {
        auto const comm = SharedMemory::join(key, 2, 3, {.timeout = 40s});
        if (comm && stage.await(2)) kill(getpid(), SIGKILL);
        return stuck();
    };
    auto const replaces = [&, key]() -> Result<> {
        if (!stage.await(3)) return stuck();
        // It waits by now.
        auto const gives_up = [&]() -> std::optional<Error> {
            stage.step();
            return std::nullopt;
        };
        return join_and_meet(key, 2, 3, {.timeout = 40s, .gives_up = gives_up})();
    };
    auto const outcomes = run_processes({again(0), again(1), dies, replaces}, [&](std::vector<pid_t> const& processes) {
        siginfo_t end{};
        waitid(P_PID, static_cast<id_t>(processes[2]), &end, WEXITED | WNOWAIT);
        stage.step();
    });
    for (auto const rank : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
        CAPTURE(outcomes[rank].message);
        CHECK(outcomes[rank].succeeded);
    }
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: a late rank waits until its deadline where the system has no unix sockets") {
    auto const late =
        join_late(1, 2, 300ms, [] { return shardwise::testing::refuse_call(SYS_socket, 0, AF_UNIX, EAFNOSUPPORT); });
    CAPTURE(late.outcome.message);
    CHECK(late.outcome.code == ErrorCode::deadline_exceeded);
    CHECK(late.outcome.message.find("was never joined by rank 0") != std::string::npos);
    CHECK(leaves_nothing_behind());
}

namespace {

/// Holds a name that anybody may take.
int hold_name(std::string const& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    auto const made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    CHECK(bind(made, reinterpret_cast<sockaddr const*>(&address), size) == 0);
    return made;
}

}  // namespace

TEST_CASE("GroupBeacon: a name that leads to anything but memory of the group shows no group") {
    auto const key = fresh_key();
    auto const other = fresh_key();
    auto const group = SharedMemory::join(other, 0, 1);
    REQUIRE(group);
    REQUIRE(RunningGroup::of(other));
    CHECK(RunningGroup::of(other)->has(getpid()));
    CHECK_FALSE(RunningGroup::of(key));
    auto const held = GroupBeacon::seen(Region::number_of(other));
    REQUIRE(held.size() == 1);
    auto const descriptor_of_group = held[0].path.substr(held[0].path.rfind('/') + 1);

    auto* const file = std::tmpfile();
    REQUIRE(file != nullptr);
    struct stat status {};
    REQUIRE(fstat(fileno(file), &status) == 0);
    int channel[2];
    REQUIRE(pipe(channel) == 0);
    auto const prefix = "shardwise/" + std::to_string(Region::number_of(key)) + "/";
    auto const self = prefix + std::to_string(getpid()) + "/";
    int const names[] = {
        hold_name(prefix),
        hold_name(prefix + "x/y/z"),
        hold_name(self + std::to_string(fileno(file)) + "/" + std::to_string(status.st_ino)),
        hold_name(self + std::to_string(channel[0]) + "/0"),
        hold_name(self + descriptor_of_group + "/0"),
        hold_name(prefix + "0/0/0"),
        // This is seen, and another key's.
        hold_name(self + descriptor_of_group + "/" + std::to_string(held[0].inode)),
    };
    CHECK(GroupBeacon::seen(Region::number_of(key)).size() == 1);
    CHECK_FALSE(RunningGroup::of(key));
    auto const joined = SharedMemory::join(key, 0, 1, {.timeout = 20s});
    CHECK(joined);
    for (auto const name : names) close(name);
    for (auto const end : channel) close(end);
    std::fclose(file);
}

TEST_SUITE("long") {
    // Row 14.
    TEST_CASE("SharedMemory: ranks that come late are refused within a second") {
        for (int turn = 0; turn < 5; ++turn) check_late_ranks(1s);
    }
}
