// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/local_processes.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

ProcessCommand shell(std::string const& script, std::vector<std::pair<std::string, std::string>> environment = {}) {
    return {{"/bin/sh", "-c", script}, std::move(environment), true};
}

bool is_running(pid_t process) {
    // A dead process that nobody waits for is no longer one that runs.
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string const text(std::istreambuf_iterator<char>(file), {});
    auto const name_end = text.rfind(')');
    return name_end != std::string::npos && text.substr(name_end + 2, 1) != "Z";
}

TEST_CASE("LocalProcesses: arguments and variables arrive as they are, and success is one") {
    testing::TemporaryFolder const folder;
    ProcessCommand const command{
        {"/bin/sh", "-c", R"(printf '%s|%s|%s' "$1" "$RANK" "$HOME" > "$2")", "sh", "a 'b' $HOME", folder / "said"},
        {{"RANK", "3"}, {"HOME", "/here"}},
        false};
    auto started = LocalProcesses::start({command, shell("exit 0")});
    REQUIRE(started);
    auto const done = started->wait_for_all(Deadline::after(30s));
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    std::ifstream file(folder / "said");
    CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == "a 'b' $HOME|3|/here");
    CHECK(started->end_of(1)->is_success());
}

TEST_CASE("LocalProcesses: a program that is not there is named, and nothing runs") {
    auto const none = LocalProcesses::start({shell("sleep 100"), {{"/no/such/program"}}});
    REQUIRE_FALSE(none);
    CHECK(none.error().code() == ErrorCode::file_not_found);
    CHECK(none.error().message().find("/no/such/program") != std::string::npos);
    CHECK_FALSE(LocalProcesses::start({{}}));
}

TEST_CASE(
    "LocalProcesses: the rank that dies is named with its code or signal, and the others end with all they started") {
    testing::TemporaryFolder const folder;
    for (bool const is_killed : {false, true}) {
        CAPTURE(is_killed);
        // The second has a child of its own, and neither ends when it is asked to.
        auto const stubborn = "trap '' TERM; (trap '' TERM; sleep 100) & echo $! > " + (folder / "child") + "; wait";
        auto started = LocalProcesses::start(
            {shell(is_killed ? "while [ ! -s " + (folder / "child") + " ]; do sleep 0.01; done; kill -SEGV $$"
                             : "while [ ! -s " + (folder / "child") + " ]; do sleep 0.01; done; exit 7"),
             shell(stubborn)});
        REQUIRE(started);
        auto const begin = Clock::now();
        auto const done = started->wait_for_all(Deadline::after(30s), 100ms);
        CHECK(Clock::now() - begin < 10s);
        REQUIRE_FALSE(done);
        CHECK(done.error().code() == ErrorCode::rank_lost);
        auto const text = done.error().message();
        CHECK_MESSAGE(text.find(is_killed ? "rank 0: was ended by signal Segmentation fault"
                                          : "rank 0: ended with exit code 7") != std::string::npos,
                      text);
        std::ifstream file(folder / "child");
        pid_t child = 0;
        file >> child;
        REQUIRE(child > 0);
        for (int i = 0; i < 500 && is_running(child); ++i) std::this_thread::sleep_for(10ms);
        CHECK_FALSE(is_running(child));
        (void)std::remove((folder / "child").c_str());
    }
}

TEST_CASE("LocalProcesses: what does not end in time is listed and ended, also when it is stopped") {
    auto started = LocalProcesses::start({shell("exit 0"), shell("sleep 100"), shell("kill -STOP $$; sleep 100")});
    REQUIRE(started);
    auto const last = started->number(2);
    auto const done = started->wait_for_all(Deadline::after(300ms), 100ms);
    REQUIRE_FALSE(done);
    CHECK(done.error().code() == ErrorCode::deadline_exceeded);
    CHECK(done.error().message().find("rank 1, 2: did not end in time") != std::string::npos);
    CHECK_FALSE(is_running(last));
}

TEST_SUITE("timing") {
    TEST_CASE("LocalProcesses: a death is noticed within 250 ms") {
        auto started = LocalProcesses::start({shell("sleep 100"), shell("sleep 100")});
        REQUIRE(started);
        kill(started->number(1), SIGKILL);
        auto const begin = Clock::now();
        auto const end = started->wait(Deadline::after(30s));
        REQUIRE(end);
        // Times ten, as all limits of the suite.
        CHECK(Clock::now() - begin < 2500ms);
        CHECK((end->member == 1 && end->signal == SIGKILL));
    }
}

}  // namespace
