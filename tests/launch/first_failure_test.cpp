// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/first_failure.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace shardwise;
using namespace std::chrono_literals;

MemberEnd end(std::int32_t member, int code, int signal, std::int32_t look, bool is_after_signal = false) {
    return {member, 100 + member, code, signal, false, look, is_after_signal, 1500ms};
}
std::vector<std::int32_t> numbers(std::vector<MemberEnd> const& ends) {
    std::vector<std::int32_t> out;
    for (auto const& one : ends) out.push_back(one.member);
    return out;
}
void write(std::string const& path, std::string const& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
}

TEST_CASE("first_failures: the first look with a failure counts, and who ended well in it does not") {
    CHECK(numbers(first_failures({})).empty());
    CHECK(numbers(first_failures({end(0, 0, 0, 1), end(1, 0, 0, 2)})).empty());
    CHECK(numbers(first_failures({end(3, 1, 0, 7), end(1, 2, 0, 5), end(0, 0, 0, 5), end(2, 0, 9, 5)})) ==
          std::vector<std::int32_t>{1, 2});
}

TEST_CASE("first_failures: one that the guard itself ended is none") {
    CHECK(numbers(first_failures({end(1, 3, 0, 4), end(0, 0, 15, 6, true), end(2, 1, 0, 6, true)})) ==
          std::vector<std::int32_t>{1});
    CHECK(numbers(first_failures({end(0, 0, 15, 6, true)})).empty());
}

TEST_CASE("failure_text: rank, host, process, device, how it ended, after how long, and its last lines") {
    RankFailure failure{end(1, 3, 0, 1), 5, "node\x1b-a", "", 0, {"one", "two"}};
    CHECK(failure_text({failure}) ==
          "shardwise: rank 5 failed: exit code 3 after 1.50 s (host node\\x1b-a, pid 101, all devices); its last 2 "
          "lines of "
          "stderr:\n  | one\n  | two\n");
    failure.end = end(1, 0, 11, 1);
    failure.end.has_dumped_core = true;
    failure.device = "GPU-1111";
    failure.last_lines.clear();
    CHECK(failure_text({failure}) ==
          "shardwise: rank 5 failed: signal 11 (Segmentation fault), core dumped after 1.50 s (host node\\x1b-a, pid "
          "101, "
          "device GPU-1111); it wrote nothing to stderr\n");
    auto const both = failure_text({failure, failure});
    CHECK(both.find("shardwise: 2 ranks failed simultaneously") == 0);
}

TEST_CASE("end_text: an OOM kill is told where the control group counted one, and only of SIGKILL") {
    RankFailure failure{end(0, 0, 9, 1), 0, "a", "", 1, {}};
    CHECK(end_text(failure) == "signal 9 (Killed), OOM kill: the control group counted one");
    failure.oom_kills = 0;
    CHECK(end_text(failure) == "signal 9 (Killed)");
    failure.oom_kills = 2;
    failure.end = end(0, 0, 15, 1);
    CHECK(end_text(failure) == "signal 15 (Terminated)");
}

TEST_CASE("count_oom_kills: from the innermost control group that counts, of version 2 and 1") {
    // The forms of Linux 6.1: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
    testing::TemporaryFolder const folder;
    CHECK_FALSE(count_oom_kills(SystemFiles(folder.path())));
    write(folder / "proc/self/cgroup", "0::/job/step\n");
    write(folder / "sys/fs/cgroup/job/memory.events", "low 0\nhigh 0\nmax 3\noom 9\noom_kill 9\noom_group_kill 0\n");
    CHECK(count_oom_kills(SystemFiles(folder.path())) == 9);
    write(folder / "sys/fs/cgroup/job/step/memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n");
    CHECK(count_oom_kills(SystemFiles(folder.path())) == 2);
    write(folder / "proc/self/cgroup", "4:memory:/old\n");
    write(folder / "sys/fs/cgroup/memory/old/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
    CHECK(count_oom_kills(SystemFiles(folder.path())) == 5);
}

}  // namespace
