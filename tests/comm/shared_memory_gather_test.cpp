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
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using namespace shardwise::testing::shared_memory;
using shardwise::testing::ProcessOutcome;
using shardwise::testing::refuse_call;
using shardwise::testing::run_processes;

namespace {

using Region = shardwise::detail::SharedRegion;

/// Rank 1 of three dies inside a split: the ranks know each other's colors, but the part is not made.
std::vector<ProcessOutcome> run_death_in_split() {
    Body const splits = [](SharedMemory& comm) -> Result<> {
        auto const part = comm.split(7);
        if (part) return {};
        // The whole group has failed with it.
        auto const later = barrier(comm);
        return later || later.error().code() != part.error().code() ? Error{ErrorCode::unsupported} : part.error();
    };
    Body const dies = [](SharedMemory& comm) -> Result<> {
        (void)shardwise::detail::place_in_color(comm, 7);
        kill(getpid(), SIGKILL);
        return {};
    };
    return run_ranks({splits, dies, splits}, {.timeout = 60s});
}

/// Rank 1 of three joins and dies, rank 2 never comes: what rank 0 is told.
ProcessOutcome run_death_in_join() {
    auto const join = [key = fresh_key()](std::int32_t rank) {
        return [=]() -> Result<> {
            auto const comm = SharedMemory::join(key, rank, 3, {.timeout = 60s});
            return comm ? Result<>{} : comm.error();
        };
    };
    return run_processes({join(0), join(1)}, [](std::vector<pid_t> const& processes) {
        std::this_thread::sleep_for(200ms);
        kill(processes[1], SIGKILL);
    })[0];
}

}  // namespace

TEST_CASE("SharedMemory: a rank that dies while a group gathers or is split is named at once") {
    check_survivors(run_death_in_split(), 1, "was ended by signal Killed", 2500ms);
    auto const joins = run_death_in_join();
    CAPTURE(joins.message);
    CHECK(joins.code == ErrorCode::rank_lost);
    CHECK(joins.message.find("rank 1: was ended by signal Killed before all ranks had joined") != std::string::npos);
    CHECK(joins.took < 200ms + 2500ms);
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: what a job left that died while it gathered is no obstacle to the next") {
    auto const key = fresh_key();
    auto const join = [key](std::int32_t rank, std::int32_t ranks, std::chrono::nanoseconds timeout) {
        return [=]() -> Result<> {
            auto comm = SharedMemory::join(key, rank, ranks, {.timeout = timeout});
            return comm ? barrier(*comm) : comm.error();
        };
    };
    // Dies while it waits, while it makes the memory, ... Sizes differ, too.
    struct HalfMade : shardwise::detail::SharedHeader {
        char rest[1000];
    };
    auto const die_making = [key]() -> Result<> {
        auto const name = "/shardwise-" + std::to_string(getuid()) + "-" + key;
        auto const file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
        HalfMade half{};
        half.maker = getpid();
        (void)!write(file, &half, sizeof half);
        kill(getpid(), SIGKILL);
        return {};
    };
    // While it takes the name away.
    auto const die_forgetting = [key]() -> Result<> {
        auto const left = Region::open(key, 2, 4096, Deadline::after(20s));
        if (!left) return left.error();
        left->header().magic.store(shardwise::detail::SharedHeader::forgotten_by(getpid()));
        kill(getpid(), SIGKILL);
        return {};
    };
    for (std::int32_t const ranks : {2, 3, 4}) {
        bool const waits = ranks == 2;
        run_processes({waits        ? std::function<Result<>()>(join(0, 2, 60s))
                       : ranks == 3 ? std::function<Result<>()>(die_making)
                                    : std::function<Result<>()>(die_forgetting)},
                      [&](std::vector<pid_t> const& processes) {
                          if (waits) std::this_thread::sleep_for(100ms);
                          if (waits) kill(processes[0], SIGKILL);
                      });
        CHECK_FALSE(leaves_nothing_behind());
        std::vector<std::function<Result<>()>> next;
        for (std::int32_t rank = 0; rank < ranks; ++rank) next.emplace_back(join(rank, ranks, 20s));
        for (auto const& outcome : run_processes(next)) {
            CAPTURE(outcome.message);
            CHECK(outcome.succeeded);
        }
        CHECK(leaves_nothing_behind());
    }
}

TEST_CASE("SharedMemory: nobody joins a group that was given up, and nobody gives up one that is complete") {
    auto const key = fresh_key();
    auto const first = Region::open(key, 2, 4096, Deadline::after(20s));
    REQUIRE(first);
    CHECK(first->count_in());
    // Another rank has found it.
    auto const late = Region::open(key, 2, 4096, Deadline::after(20s));
    REQUIRE(late);
    CHECK(first->close_group());
    CHECK_FALSE(late->count_in());
    CHECK_FALSE(late->is_complete());
    CHECK_FALSE(late->is_gathering());
    CHECK(late->close_group());
    first->forget_name();
    auto const second = Region::open(key, 2, 4096, Deadline::after(20s));
    REQUIRE(second);
    CHECK(second->count_in());
    CHECK(second->count_in());
    CHECK_FALSE(second->close_group());
    CHECK(second->is_complete());
    // Who forgot the first one's name has no right to this one's.
    late->forget_name();
    CHECK_FALSE(leaves_nothing_behind());
    second->forget_name();
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: a rank that dies before it is counted in is named at once") {
    auto const key = fresh_key();
    auto const waits = [key]() -> Result<> {
        auto const comm = SharedMemory::join(key, 0, 2, {.timeout = 50s});
        return comm ? Result<>{} : comm.error();
    };
    auto const dies = [key]() -> Result<> {
        auto const path = "/dev/shm/shardwise-" + std::to_string(getuid()) + "-" + key;
        while (!std::filesystem::exists(path)) std::this_thread::sleep_for(1ms);
        auto const shared = Region::open(key, 2, std::size_t{256} * 1024, Deadline::after(20s));
        if (!shared) return shared.error();
        shared->region().slot(1).process.store(getpid());
        kill(getpid(), SIGKILL);
        return {};
    };
    auto const outcomes = run_processes({waits, dies});
    CAPTURE(outcomes[0].message);
    CHECK(outcomes[0].code == ErrorCode::rank_lost);
    CHECK(outcomes[0].message.find("rank 1: was ended by signal Killed before all ranks had joined") !=
          std::string::npos);
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: groups are made where files need a name from the start, and where there is no /proc") {
    for (bool const has_proc : {true, false}) {
        auto const join = [key = fresh_key(), has_proc](std::int32_t rank) {
            return [=]() -> Result<> {
                bool const is_refused = has_proc ? refuse_call(SYS_openat, 2, O_TMPFILE & ~O_DIRECTORY, EOPNOTSUPP)
                                                 : refuse_call(SYS_linkat, 4, AT_SYMLINK_FOLLOW, ENOENT);
                if (!is_refused) return Error{ErrorCode::unsupported}.in("seccomp");
                auto comm = SharedMemory::join(key, rank, 2, {.timeout = 20s});
                if (!comm) return comm.error();
                auto part = comm->split(rank);
                return part ? barrier(*comm) : part.error();
            };
        };
        for (auto const& outcome : run_processes({join(0), join(1)})) {
            CAPTURE(has_proc);
            CAPTURE(outcome.message);
            if (!outcome.succeeded && outcome.code == ErrorCode::unsupported)
                shardwise::testing::note_absent_tool("seccomp");
            else
                CHECK(outcome.succeeded);
        }
    }
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: memory of another user under the group's name is not used") {
    auto const key = fresh_key();
    auto const name = "/shardwise-" + std::to_string(getuid()) + "-" + key;
    auto const file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0666);
    REQUIRE(file >= 0);
    // Only root may give files away.
    bool const is_given = fchown(file, 12345, 12345) == 0;
    close(file);
    auto const comm = SharedMemory::join(key, 0, 1, {.timeout = 200ms});
    REQUIRE_FALSE(comm);
    CHECK((comm.error().message().find("belongs to another user") != std::string::npos) == is_given);
    shm_unlink(name.c_str());
}

TEST_CASE("SharedMemory: a fork that drops its copy of a rank takes the rank from nobody") {
    Body const forks = [](SharedMemory& comm) -> Result<> {
        if (comm.rank() == 1) {
            auto const child = fork();
            if (child == 0) {
                { auto const dropped = std::move(comm); }
                _exit(0);
            }
            int status = 0;
            if (waitpid(child, &status, 0) != child || status != 0) return Error{ErrorCode::unsupported}.in("fork");
        }
        return barrier(comm);
    };
    for (auto const& outcome : run_ranks({forks, forks}, {.timeout = 20s})) {
        CAPTURE(outcome.message);
        CHECK(outcome.succeeded);
    }
}

TEST_CASE("SharedMemory: a part of one rank has no name, so that its death leaves nothing") {
    auto const key = fresh_key();
    auto comm = SharedMemory::join(key, 0, 1, {.timeout = 300ms});
    REQUIRE(comm);
    // Were the name of the part used, this would be in its way.
    auto const name = "/shardwise-" + std::to_string(getuid()) + "-" + key + ".1.7";
    auto const file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    REQUIRE(file >= 0);
    close(file);
    auto part = comm->split(7);
    REQUIRE(part);
    CHECK(barrier(*part));
    CHECK(part->split(1));
    CHECK(shm_unlink(name.c_str()) == 0);
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: the longest keys, timeouts without an end and chunks of any size are understood") {
    auto const key = fresh_key() + std::string(200, 'x').substr(fresh_key().size());
    auto comm = SharedMemory::join(key.substr(0, 200), 0, 1);
    REQUIRE(comm);
    auto part = comm->split(-3);
    REQUIRE(part);
    CHECK(part->split(3));
    CHECK(part->split(4));

    auto const endless = [other = fresh_key()](std::int32_t rank) {
        return [=]() -> Result<> {
            // Rank 0 waits a while.
            if (rank == 1) std::this_thread::sleep_for(50ms);
            auto joined = SharedMemory::join(other, rank, 2, {.timeout = std::chrono::nanoseconds::max()});
            return joined ? barrier(*joined) : joined.error();
        };
    };
    for (auto const& outcome : run_processes({endless(0), endless(1)})) {
        CAPTURE(outcome.message);
        CHECK(outcome.succeeded);
    }
    for (auto const chunk : {std::size_t{63}, (std::size_t{1} << 30U) + 1, SIZE_MAX}) {
        auto const refused = SharedMemory::join(fresh_key(), 0, 1, {.chunk_bytes = chunk});
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == ErrorCode::invalid_argument);
    }
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: while a part gathers, its ranks are named by their numbers in the whole, too") {
    Body const splits = [](SharedMemory& comm) -> Result<> {
        auto const part = comm.split(comm.rank() == 0 ? 0 : 1);
        return part ? Result<>{} : part.error();
    };
    // Of the part of ranks 1, 2 and 3, the last never comes.
    Body const stays_away = [](SharedMemory& comm) -> Result<> {
        (void)shardwise::detail::place_in_color(comm, 1);
        std::this_thread::sleep_for(3s);
        return {};
    };
    auto const late = run_ranks({splits, splits, splits, stays_away}, {.timeout = 1s});
    CAPTURE(late[1].message);
    CHECK(late[1].code == ErrorCode::deadline_exceeded);
    CHECK(late[1].message.find("was never joined by rank 2 (of all: rank 3)") != std::string::npos);
    CHECK(late[2].message == late[1].message);

    auto const kill_second = [](std::vector<pid_t> const& processes) {
        std::this_thread::sleep_for(500ms);
        kill(processes[2], SIGKILL);
    };
    auto const dead = run_ranks({splits, splits, splits, stays_away}, {.timeout = 60s}, kill_second);
    CAPTURE(dead[1].message);
    CHECK(dead[1].code == ErrorCode::rank_lost);
    CHECK(dead[1].message.find("rank 1 (of all: rank 2): was ended by signal Killed") != std::string::npos);
}

TEST_SUITE("long") {
    TEST_CASE("SharedMemory: a death while a group gathers or is split is known within 250 ms") {
        for (int turn = 0; turn < 5; ++turn) {
            check_survivors(run_death_in_split(), 1, "", 250ms);
            CHECK(run_death_in_join().took < 200ms + 250ms);
        }
    }
}
