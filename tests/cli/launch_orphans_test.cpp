// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "marked_processes.hpp"
#include "program.hpp"

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;
using namespace std::chrono_literals;

namespace {

constexpr char const* mark = "SHARDWISE_LAUNCH_ORPHANS";

int count_marked(std::string const& value) { return testing::count_marked(mark, value); }
enum class Ending { success, failure, interrupt, terminate, hang_up, launcher_killed, guard_killed };
constexpr Ending all_endings[] = {Ending::success, Ending::failure,         Ending::interrupt,   Ending::terminate,
                                  Ending::hang_up, Ending::launcher_killed, Ending::guard_killed};

/// A rank that hears no signal, with a child in a session of its own and one that is stopped, which hear none either.
std::string script(Ending ending) {
    std::string const out = "trap '' TERM INT HUP; setsid sleep 100 & (sleep 100) & kill -STOP $!; ";
    if (ending == Ending::success) return out + "sleep 0.1; exit 0";
    if (ending == Ending::failure) return out + "sleep 0.1; exit 7";
    return out + "sleep 100 & wait; sleep 100";
}
int status_of(Ending ending) {
    switch (ending) {
        case Ending::success:
            return 0;
        case Ending::failure:
            return 1;
        case Ending::interrupt:
            return 130;
        case Ending::terminate:
            return 143;
        case Ending::hang_up:
            return 129;
        case Ending::launcher_killed:
            return -1;
        case Ending::guard_killed:
            return 1;
    }
    return -1;
}

void check_cell(Ending ending, int number) {
    auto const value =
        std::to_string(::getpid()) + "-" + std::to_string(static_cast<int>(ending)) + "-" + std::to_string(number);
    CAPTURE(value);
    std::chrono::steady_clock::time_point begin;
    auto const ran = run_command_line(
        {SHARDWISE_PROGRAM, "launch", "--nproc", "2", "--grace", "0.2", "--", "/bin/sh", "-c", script(ending)},
        {{mark, value}}, [&](pid_t launcher) {
            // The launcher, its guard, two ranks and what they have started; short ones are gone before.
            if (ending != Ending::success && ending != Ending::failure)
                CHECK(testing::comes_true(10s, [&] { return count_marked(value) >= 10; }));
            begin = std::chrono::steady_clock::now();
            if (ending == Ending::interrupt) ::kill(launcher, SIGINT);
            if (ending == Ending::terminate) ::kill(launcher, SIGTERM);
            if (ending == Ending::hang_up) ::kill(launcher, SIGHUP);
            if (ending == Ending::launcher_killed) ::kill(launcher, SIGKILL);
            if (ending == Ending::guard_killed) {
                auto const guards = testing::children_of(launcher);
                REQUIRE(guards.size() == 1);
                ::kill(guards.front(), SIGKILL);
            }
        });
    CHECK(ran.status == status_of(ending));
    // Once the launcher has ended in order nothing is left; where it was killed, soon.
    if (ending != Ending::launcher_killed) CHECK(count_marked(value) == 0);
    CHECK(testing::comes_true(1200ms, [&] { return count_marked(value) == 0; }));
    if (ending != Ending::success && ending != Ending::failure) {
        // Grace + 1 s; times ten, as all limits of the suite.
        CHECK(std::chrono::steady_clock::now() - begin < 12s);
    }
    if (ending != Ending::guard_killed) return;
    // It may not have said yet that all are started.
    bool const is_told = ran.says("guard: was killed, and the ranks with it") ||
                         ran.says("guard: ended before all processes were started");
    CHECK_MESSAGE(is_told, ran.err);
}

}  // namespace

TEST_CASE("launch: nothing is left after success, failure, signals, and kill -9 of the launcher or the guard") {
    for (auto const ending : all_endings) {
        for (int i = 0; i < 3; ++i) check_cell(ending, i);
    }
}

TEST_CASE("launch: nothing is left where guard and launcher are stopped or killed together") {
    auto const value = std::to_string(::getpid()) + "-both";
    (void)run_command_line({SHARDWISE_PROGRAM, "launch", "--nproc", "2", "--grace", "0.2", "--", "/bin/sleep", "100"},
                           {{mark, value}}, [&](pid_t launcher) {
                               CHECK(testing::comes_true(10s, [&] { return count_marked(value) == 4; }));
                               auto const guards = testing::children_of(launcher);
                               REQUIRE(guards.size() == 1);
                               ::kill(guards.front(), SIGSTOP);
                               ::kill(launcher, SIGKILL);
                               ::kill(guards.front(), SIGKILL);
                           });
    CHECK(testing::comes_true(60s, [&] { return count_marked(value) == 0; }));
    // A guard that is stopped is given up a second after the grace.
    auto const stopped =
        run_command_line({SHARDWISE_PROGRAM, "launch", "--nproc", "2", "--grace", "0.2", "--", "/bin/sleep", "100"},
                         {{mark, value}}, [&](pid_t launcher) {
                             CHECK(testing::comes_true(10s, [&] { return count_marked(value) == 4; }));
                             auto const guards = testing::children_of(launcher);
                             REQUIRE(guards.size() == 1);
                             ::kill(guards.front(), SIGSTOP);
                             ::kill(launcher, SIGTERM);
                         });
    CHECK(stopped.status == 143);
    CHECK(count_marked(value) == 0);
}

TEST_CASE(
    "launch: ranks that had ended before the guard looked are told as simultaneous, and not who it ended itself") {
    auto const value = std::to_string(::getpid()) + "-look";
    auto const ran =
        run_command_line({SHARDWISE_PROGRAM, "launch", "--nproc", "3", "--grace", "0.2", "--", "/bin/sleep", "100"},
                         {{mark, value}}, [&](pid_t launcher) {
                             CHECK(testing::comes_true(10s, [&] { return count_marked(value) == 5; }));
                             auto const guards = testing::children_of(launcher);
                             REQUIRE(guards.size() == 1);
                             // In the order of their starts.
                             auto const ranks = testing::children_of(guards.front());
                             REQUIRE(ranks.size() == 3);
                             ::kill(guards.front(), SIGSTOP);
                             ::kill(ranks[2], SIGSEGV);
                             ::kill(ranks[0], SIGBUS);
                             // Those that have ended have no environment any more.
                             CHECK(testing::comes_true(10s, [&] { return count_marked(value) == 3; }));
                             ::kill(guards.front(), SIGCONT);
                         });
    CHECK(ran.status == 1);
    CHECK_MESSAGE(ran.says("2 ranks failed simultaneously"), ran.err);
    CHECK(ran.says("rank 0 failed: signal 7 (Bus error)"));
    CHECK(ran.says("rank 2 failed: signal 11 (Segmentation fault)"));
    CHECK_FALSE(ran.says("rank 1 failed"));
}

TEST_SUITE("long") {
    TEST_CASE("launch: nothing is left, a hundred times") {
        for (auto const ending : all_endings) {
            for (int i = 0; i < 100; ++i) check_cell(ending, i);
        }
    }
}
