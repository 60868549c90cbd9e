// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/local_processes.hpp>

#include <doctest/doctest.h>

#include "marked_processes.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace shardwise;
using namespace std::chrono_literals;

constexpr char const* mark = "SHARDWISE_ORPHAN_TEST";

int count_marked(std::string const& value) { return testing::count_marked(mark, value); }

enum class Ending { success, failure, end_all, launcher_killed };

/// A rank with a child in a session of its own and one that is stopped, neither of which hears SIGTERM.
std::string script(Ending ending) {
    std::string out = "trap '' TERM; setsid sleep 100 & (sleep 100) & kill -STOP $!; ";
    if (ending == Ending::success) return out + "sleep 0.1; exit 0";
    if (ending == Ending::failure) return out + "sleep 0.1; exit 7";
    return out + "sleep 100 & wait";
}

void check_cell(Ending ending, int number) {
    auto const value = std::to_string(getpid()) + "-" + std::to_string(static_cast<int>(ending)) + "-" +
                       std::to_string(number);
    CAPTURE(value);
    ProcessCommand const command{{"/bin/sh", "-c", script(ending)}, {{mark, value}}, true};
    auto const has_all = [&](int ranks) { return testing::comes_true(3s, [&] { return count_marked(value) >= 3 * ranks; }); };
    auto const is_clean = [&] { return testing::comes_true(3s, [&] { return count_marked(value) == 0; }); };
    if (ending == Ending::launcher_killed) {
        auto const launcher = fork();
        if (launcher == 0) {
            auto const started = LocalProcesses::start({command, command});
            while (started) pause();
            _exit(1);
        }
        CHECK(has_all(2));
        kill(launcher, SIGKILL);
        (void)waitpid(launcher, nullptr, 0);
    } else {
        auto started = LocalProcesses::start({command, command});
        REQUIRE(started);
        CHECK(has_all(2));
        if (ending == Ending::end_all) {
            started->end_all(200ms);
        } else {
            auto const done = started->wait_for_all(Deadline::after(30s), 200ms);
            CHECK(done.has_value() == (ending == Ending::success));
        }
        // Nothing is left once the call is over.
        CHECK(count_marked(value) == 0);
    }
    CHECK(is_clean());
}

void check_matrix(int times) {
    for (auto const ending : {Ending::success, Ending::failure, Ending::end_all, Ending::launcher_killed}) {
        for (int i = 0; i < times; ++i) check_cell(ending, i);
    }
}

TEST_CASE("LocalProcesses: nothing is left after success, failure, an end by request and kill -9 of the launcher") {
    check_matrix(3);
}

TEST_CASE("LocalProcesses: a process dies with its guard") {
    auto const value = std::to_string(getpid()) + "-guard";
    auto started = LocalProcesses::start({{{"/bin/sleep", "100"}, {{mark, value}}, true}});
    REQUIRE(started);
    REQUIRE(count_marked(value) == 1);
    // Its parent, as /proc/PID/stat has it after the name.
    std::ifstream file("/proc/" + std::to_string(started->number(0)) + "/stat");
    std::string text(std::istreambuf_iterator<char>(file), {});
    auto const guard = std::atoi(text.substr(text.rfind(')') + 4).c_str());
    REQUIRE(guard > 1);
    REQUIRE(guard != getpid());
    kill(guard, SIGKILL);
    CHECK(testing::comes_true(3s, [&] { return count_marked(value) == 0; }));
    auto const end = started->wait(Deadline::after(30s));
    REQUIRE(end);
    CHECK(end->signal == SIGKILL);
}

TEST_SUITE("long") {
    TEST_CASE("LocalProcesses: nothing is left, a hundred times") { check_matrix(100); }
}

}  // namespace
