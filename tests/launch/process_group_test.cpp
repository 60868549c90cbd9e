// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/process_group.hpp>

#include <doctest/doctest.h>

#include "marked_processes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace shardwise;
using namespace std::chrono_literals;

GroupMember shell(std::string const& script) {
    return {{"/bin/sh", "-c", script}, {"PATH=/usr/bin:/bin"}, -1, -1, {}};
}
std::vector<MemberEnd> all_ends(ProcessGroup& group) {
    std::vector<MemberEnd> out;
    auto const deadline = Deadline::after(30s);
    while (auto const end = group.take(deadline)) out.push_back(*end);
    return out;
}
/// The letter of /proc/PID/stat.
std::string state_of(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string const text(std::istreambuf_iterator<char>(file), {});
    auto const name_end = text.rfind(')');
    return name_end == std::string::npos ? "" : text.substr(name_end + 2, 1);
}
TEST_CASE("ProcessGroup: each member's end is told once, with code or signal and time") {
    auto group = ProcessGroup::start({shell("exit 0"), shell("sleep 0.05; exit 7"), shell("sleep 0.1; kill -TERM $$")});
    REQUIRE(group);
    auto const ends = all_ends(*group);
    CHECK((group->is_over() && !group->has_lost_guard() && group->left() == 0));
    REQUIRE(ends.size() == 3);
    std::vector<MemberEnd> by_member(3);
    for (auto const& end : ends) by_member[static_cast<std::size_t>(end.member)] = end;
    CHECK(by_member[0].is_success());
    CHECK((by_member[1].exit_code == 7 && by_member[1].signal == 0));
    CHECK((by_member[2].exit_code == 0 && by_member[2].signal == SIGTERM));
    CHECK(by_member[2].process == group->process(2));
    CHECK(by_member[2].time > 0ms);
    for (auto const& end : by_member) CHECK_FALSE(end.is_after_signal);
}

TEST_CASE("ProcessGroup: what cannot be started is named, and nothing runs") {
    for (auto const& [program, code] :
         {std::pair{"/no/such/program", ErrorCode::file_not_found}, std::pair{"/", ErrorCode::file_unreadable}}) {
        auto const group = ProcessGroup::start({shell("sleep 100"), {{program}, {}, -1, -1, {}}});
        REQUIRE_FALSE(group);
        CHECK(group.error().code() == code);
        CHECK(group.error().message().find(program) == 0);
    }
    CHECK_FALSE(ProcessGroup::start({{{}, {}, -1, -1, {}}}));
}

TEST_CASE(
    "ProcessGroup: signals reach all, also those that are stopped, and what they end is told from what came before") {
    auto group = ProcessGroup::start({shell("kill -STOP $$; sleep 100"), shell("exit 3"), shell("sleep 100")});
    REQUIRE(group);
    auto const first = group->take(Deadline::after(30s));
    REQUIRE(first);
    CHECK((first->member == 1 && first->exit_code == 3 && !first->is_after_signal));
    CHECK(testing::comes_true(60s, [&] { return state_of(group->process(0)) == "T"; }));
    group->send(SIGTERM);
    auto const others = all_ends(*group);
    REQUIRE(others.size() == 2);
    for (auto const& end : others) CHECK((end.signal == SIGTERM && end.is_after_signal && end.look > first->look));
}

TEST_CASE(
    "ProcessGroup: a start that stands still is given up, by its limit or by whoever waits, and nothing is left") {
    auto const mark = "SHARDWISE_STANDS_STILL=" + std::to_string(::getpid());
    // What a member itself starts would outlive its guard.
    auto member = shell("exec sleep 100");
    member.environment.push_back(mark);
    // Enough of them that their guard is stopped between the first start and the last.
    std::vector<GroupMember> const members(300, member);
    for (bool const has_limit : {true, false}) {
        CAPTURE(has_limit);
        // A slow machine may reach the limit before five members have started: such a start is tried again with more time.
        bool was_stopped = false;
        for (auto limit = 500ms; !was_stopped && limit <= 8s; limit *= 2) {
            std::atomic<bool> is_stopped = false, is_over = false;
            bool has_been_asked = false;
            ProcessGroupOptions options;
            if (has_limit) options.start_limit = limit;
            if (!has_limit)
                options.gives_up = [&] {
                    has_been_asked = true;
                    return is_stopped.load();
                };
            auto const before = testing::children_of(::getpid());
            std::thread stopper([&] {
                auto const stop_guard = [&] {
                    for (auto const child : testing::children_of(::getpid())) {
                        if (std::find(before.begin(), before.end(), child) != before.end()) continue;
                        if (testing::children_of(child).size() < 5) continue;
                        return kill(child, SIGSTOP) == 0;
                    }
                    return false;
                };
                while (!is_over && !is_stopped) {
                    is_stopped = stop_guard();
                    std::this_thread::sleep_for(1ms);
                }
            });
            auto const begin = std::chrono::steady_clock::now();
            auto const group = ProcessGroup::start(members, options);
            is_over = true;
            stopper.join();
            was_stopped = is_stopped;
            if (was_stopped) {
                REQUIRE_FALSE(group);
                CHECK(std::chrono::steady_clock::now() - begin < 60s);
                if (has_limit) {
                    CHECK(group.error().code() == ErrorCode::deadline_exceeded);
                    CHECK(group.error().message().find("/bin/sh: did not start in time") != std::string::npos);
                } else {
                    CHECK(has_been_asked);
                    CHECK(group.error().message().find("was given up") != std::string::npos);
                }
            }
        }
        CHECK(was_stopped);
        CHECK(testing::comes_true(
            60s, [&] { return testing::count_marked("SHARDWISE_STANDS_STILL", std::to_string(::getpid())) == 0; }));
    }
}

TEST_CASE("ProcessGroup: members that ended before the guard looked have one look") {
    auto group = ProcessGroup::start({shell("sleep 100"), shell("sleep 100"), shell("sleep 100")});
    REQUIRE(group);
    kill(group->guard(), SIGSTOP);
    CHECK(testing::comes_true(60s, [&] { return state_of(group->guard()) == "T"; }));
    for (int const member : {2, 0}) {
        kill(group->process(member), SIGSEGV);
        CHECK(testing::comes_true(60s, [&] { return state_of(group->process(member)) == "Z"; }));
    }
    kill(group->guard(), SIGCONT);
    auto const one = group->take(Deadline::after(30s));
    auto const two = group->take(Deadline::after(30s));
    REQUIRE((one && two));
    CHECK((one->look == two->look && one->member == 0 && two->member == 2));
}

TEST_CASE("ProcessGroup: failures 20 ms apart are told in their order") {
    // The second waits for the first's death and then 20 ms: however slow this machine is, that is their order.
    auto group = ProcessGroup::start({shell("sleep 100"), shell("sleep 100")});
    REQUIRE(group);
    int ordered = 0;
    kill(group->process(1), SIGKILL);
    CHECK(testing::comes_true(60s, [&] { return state_of(group->process(1)) == "Z"; }));
    std::this_thread::sleep_for(20ms);
    kill(group->process(0), SIGKILL);
    auto const ends = all_ends(*group);
    REQUIRE(ends.size() == 2);
    for (auto const& end : ends) ordered += end.member == 1 && (end.look <= ends.back().look) ? 1 : 0;
    CHECK(ordered == 1);
    CHECK((ends[0].member == 1 || ends[0].look == ends[1].look));
}

TEST_CASE("ProcessGroup: what is left running is asked to end, then killed, and counted") {
    ProcessGroupOptions options;
    options.left_grace = 100ms;
    auto group =
        ProcessGroup::start({shell("(trap '' TERM; sleep 100) & setsid sleep 100 & sleep 0.1; exit 0")}, options);
    REQUIRE(group);
    auto const ends = all_ends(*group);
    REQUIRE(ends.size() == 1);
    CHECK(ends[0].is_success());
    CHECK(group->left() >= 2);
}

TEST_CASE("ProcessGroup: it dies with its guard, and says so") {
    auto group = ProcessGroup::start({shell("exec sleep 100")});
    REQUIRE(group);
    auto const process = group->process(0);
    kill(group->guard(), SIGKILL);
    CHECK(all_ends(*group).empty());
    CHECK((group->is_over() && group->has_lost_guard()));
    CHECK(testing::comes_true(60s, [&] { return state_of(process).empty() || state_of(process) == "Z"; }));
}

TEST_CASE("ProcessGroup: a guard that is stopped is given up, with all members") {
    auto group = ProcessGroup::start({shell("exec sleep 100")});
    REQUIRE(group);
    auto const process = group->process(0);
    kill(group->guard(), SIGSTOP);
    group->send(SIGKILL);
    CHECK_FALSE(group->take(Deadline::after(50ms)));
    group->abandon();
    CHECK((group->is_over() && group->has_lost_guard()));
    CHECK(testing::comes_true(60s, [&] { return state_of(process).empty() || state_of(process) == "Z"; }));
}

}  // namespace
