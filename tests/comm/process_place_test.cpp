// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/detail/process_place.hpp>

#include <doctest/doctest.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using shardwise::detail::ProcessPlace;

/// What a child process is, which first does `prepare`; nothing where that fails.
template <class Prepare>
bool child_place(Prepare const& prepare, ProcessPlace& place) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    auto const child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        if (!prepare()) _exit(1);
        auto const own = ProcessPlace::current();
        _exit(write(ends[1], &own, sizeof own) == sizeof own ? 0 : 1);
    }
    close(ends[1]);
    bool const is_read = read(ends[0], &place, sizeof place) == sizeof place;
    close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return is_read && status == 0;
}

}  // namespace

TEST_CASE("ProcessPlace: a process is itself, another one of the machine has another number among the same") {
    auto const own = ProcessPlace::current();
    CHECK(own == ProcessPlace::current());
    CHECK(own.machine[0] != '\0');
    CHECK(own.process == getpid());
    ProcessPlace other;
    REQUIRE(child_place([] { return true; }, other));
    CHECK(other.machine == own.machine);
    CHECK(other.numbers == own.numbers);
    CHECK(other.process != own.process);
    CHECK_FALSE(other == own);
}

TEST_CASE("ProcessPlace: a container's processes, whose numbers may be those of others, are told apart") {
    auto const own = ProcessPlace::current();
    ProcessPlace inside;
    // Its children are numbered from 1; the first is a child that tells what it is.
    auto const enter = [] {
        if (unshare(CLONE_NEWPID) != 0) return false;
        auto const child = fork();
        if (child == 0) return true;
        int status = 1;
        _exit(child > 0 && waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 1);
    };
    if (!child_place(enter, inside)) {
        MESSAGE("SKIPPED: namespaces of process numbers are not permitted here");
        return;
    }
    CHECK(inside.process == 1);
    CHECK(inside.machine == own.machine);
    CHECK(inside.numbers != own.numbers);
    CHECK_FALSE(inside == own);
}
