// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "fake_machine.hpp"
#include "marked_processes.hpp"
#include "program.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise::tests;
using shardwise::testing::FakeMachine;
namespace machines = shardwise::testing::machines;

namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

Environment environment_of(FakeMachine& machine) {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    return {{"SHARDWISE_NVML", machine.options().nvml_library},
            {"SHARDWISE_AMD_SMI", machine.options().amd_smi_libraries[0]},
            {"SHARDWISE_SYSTEM_ROOT", machine.options().root}};
}
Ran run_on(FakeMachine& machine, std::vector<std::string> const& words, Environment more = {}) {
    auto environment = environment_of(machine);
    environment.insert(environment.end(), more.begin(), more.end());
    return run(words, environment);
}
Ran run_monitor(FakeMachine& machine, std::vector<std::string> words, std::function<void(pid_t)> const& meanwhile) {
    words.insert(words.begin(), {SHARDWISE_PROGRAM, "monitor"});
    return run_command_line(std::move(words), environment_of(machine), meanwhile);
}

std::vector<std::string> lines_of(std::string const& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

std::string two_gpus() {
    return std::string(machines::one_gpu) +
           "gpu name=\"NVIDIA GeForce RTX 4090\" uuid=GPU-2222 pci=00000000:02:00.0 memory=25757220864\n"
           "series device=0 key=utilization values=10,30\nseries device=0 key=power values=100000\n";
}

/// Processes that a test has marked with its folder.
int count_marked(TemporaryFolder const& folder) { return shardwise::testing::count_marked("SHARDWISE_TEST_MARK", folder.path()); }

/// Waits until a file is there.
bool wait_for_file(std::string const& path) {
    for (int i = 0; i < 500 && !std::filesystem::exists(path); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return std::filesystem::exists(path);
}

}  // namespace

TEST_CASE("monitor --once: the host and a row for each device; unknown values are dashes") {
    FakeMachine machine;
    machine.nvidia(two_gpus());
    auto const ran = run_on(machine, {"monitor", "--once"});
    CHECK(ran.status == 0);
    CHECK(ran.out.find("32.00 MiB of 64.00 MiB") != std::string::npos);
    auto const lines = lines_of(ran.out);
    auto const row = std::find_if(lines.begin(), lines.end(), [](auto const& line) { return line.rfind("cuda:0", 0) == 0; });
    REQUIRE(row != lines.end());
    CHECK(row->find("30 %") != std::string::npos);
    CHECK(row->find("100 W") != std::string::npos);
    CHECK(row->find("  -") != std::string::npos);
    CHECK(ran.says("nvmlDeviceGetUtilizationRates failed with Not Supported"));
    // Without a terminal the bare command is the same.
    CHECK(run_on(machine, {"monitor"}).out.find("cuda:1") != std::string::npos);
}

TEST_CASE("monitor: a machine without any GPU has its host, in every form") {
    FakeMachine machine;
    auto const text = run_on(machine, {"monitor", "--once"});
    CHECK(text.status == 0);
    CHECK(text.out.find("host") != std::string::npos);
    auto const json = run_on(machine, {"monitor", "--once", "--json"});
    CHECK(json.status == 0);
    Answer const answer(json.out);
    REQUIRE(answer.is_valid());
    CHECK(answer.text("schema") == "shardwise.monitor/1");
    CHECK(answer.integer("host", "memory_total") == 65536 * 1024);
    CHECK(answer.is_null("host", "cpu"));
    CHECK(answer.is_null("host", "energy"));
    CHECK(answer.size("devices") == 0);
    auto const metrics = run_on(machine, {"monitor", "--prometheus"});
    CHECK(metrics.status == 0);
    CHECK(metrics.out.find("shardwise_host_memory_size_bytes 67108864\n") != std::string::npos);
    CHECK(metrics.out.find("shardwise_host_cpu_ratio") == std::string::npos);
}

TEST_CASE("monitor --devices: exit 4 names every device that may not be used") {
    FakeMachine machine;
    machine.nvidia(two_gpus());
    auto const ran = run_on(machine, {"monitor", "--once", "--json", "--devices", "cuda:1,cuda:8,GPU-nope"});
    CHECK(ran.status == 4);
    CHECK(ran.says("shardwise: cuda:8: "));
    CHECK(ran.says("shardwise: GPU-nope: "));
    CHECK_FALSE(ran.says("shardwise: cuda:1: "));
    CHECK(Answer(ran.out).text("error", "code") == "no_such_device");
    auto const hidden = run_on(machine, {"monitor", "--once", "--devices", "GPU-2222"}, {{"CUDA_VISIBLE_DEVICES", "0"}});
    CHECK(hidden.status == 4);
    CHECK(hidden.says("CUDA_VISIBLE_DEVICES"));
    auto const alone = run_on(machine, {"monitor", "--once", "--json", "--devices", "cpu"});
    CHECK(alone.status == 0);
    CHECK(Answer(alone.out).size("devices") == 0);
}

TEST_CASE("monitor: wrong flags exit 2 and say which") {
    FakeMachine machine;
    auto const refused = [&](std::vector<std::string> words, char const* text) {
        words.insert(words.begin(), "monitor");
        auto const ran = run_on(machine, words);
        CHECK_MESSAGE(ran.status == 2, ran.err);
        CHECK_MESSAGE(ran.says(text), ran.err);
    };
    refused({"--interval", "0"}, "--interval: 0");
    refused({"--interval", "nan"}, "--interval");
    refused({"--interval", "1s"}, "--interval");
    refused({"--json", "--csv", "x"}, "--json");
    refused({"--once", "--", "true"}, "--once");
    refused({"--prometheus", "--", "true"}, "--prometheus");
    refused({"--devices", " "}, "--devices");
    refused({"--"}, "no command");
    refused({"--csv", ""}, "--csv");
}

TEST_CASE("monitor --json: a line for each look until a signal, which is its exit status") {
    FakeMachine machine;
    machine.nvidia(two_gpus());
    for (int const signal : {SIGINT, SIGTERM}) {
        auto const ran = run_monitor(machine, {"--json", "--interval", "0.05"}, [&](pid_t process) {
            std::this_thread::sleep_for(std::chrono::milliseconds(700));
            ::kill(process, signal);
        });
        CHECK(ran.status == 128 + signal);
        auto const lines = lines_of(ran.out);
        CHECK(lines.size() >= 3);
        for (auto const& line : lines) CHECK(Answer(line).text("schema") == "shardwise.monitor/1");
        REQUIRE_FALSE(lines.empty());
        CHECK(Answer(lines.back()).real("devices", 0U, "utilization") == 30.0);
    }
}

TEST_CASE("monitor --csv: rows are added to a file of the same columns, and to no other") {
    FakeMachine machine;
    machine.nvidia(two_gpus());
    TemporaryFolder const folder;
    auto const file = folder.path() + "/run.csv";
    for (int i = 0; i < 2; ++i) CHECK(run_on(machine, {"monitor", "--once", "--csv", file}).status == 0);
    auto const lines = lines_of(read_text(file));
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].rfind("timestamp,duration_s,host_cpu_percent,", 0) == 0);
    CHECK(lines[0].back() == '\r');
    CHECK(lines[2].find(",30.000,") != std::string::npos);
    CHECK(lines[2].find("\"cuda:0,cuda:1\"") != std::string::npos);
    auto const other = run_on(machine, {"monitor", "--once", "--csv", file, "--devices", "cuda:0"});
    CHECK(other.status == 1);
    CHECK(other.says("has rows with other columns"));
    CHECK(lines_of(read_text(file)).size() == 3);
    CHECK(run_on(machine, {"monitor", "--once", "--csv", folder.path() + "/no/x.csv"}).status == 1);
    CHECK(run_on(machine, {"monitor", "--once", "--csv", "-"}).out.rfind("timestamp,", 0) == 0);
}

TEST_CASE("monitor: a device that is lost on the way ends its row and says so") {
    FakeMachine machine;
    machine.nvidia(two_gpus() + "fail call=nvmlDeviceGetUtilizationRates device=0 status=15 after=1\n");
    auto const ran = run_on(machine, {"monitor", "--once", "--json"});
    CHECK(ran.status == 0);
    Answer const answer(ran.out);
    CHECK(answer.at("devices", 0U, "lost")->boolean() == true);
    CHECK(answer.is_null("devices", 0U, "memory_used"));
    CHECK(answer.at("devices", 1U, "lost")->boolean() == false);
    CHECK(ran.says("cuda:0 is lost"));
}

TEST_CASE("monitor -- COMMAND: its output and exit code, and a report on the error output") {
    FakeMachine machine;
    machine.nvidia(two_gpus());
    TemporaryFolder const folder;
    auto const file = folder.path() + "/run.csv";
    auto const ran = run_on(machine, {"monitor", "--interval", "0.05", "--csv", file, "--", "sh", "-c",
                                      "echo \"$1\"; sleep 0.4; exit 7", "x", "--json"});
    CHECK(ran.status == 7);
    CHECK(ran.out == "--json\n");
    CHECK(ran.says("sh ended with exit code 7 after 0."));
    CHECK(ran.says("cuda:0 NVIDIA GeForce RTX 4090: busy mean "));
    CHECK(ran.says("power mean 100 W"));
    CHECK(ran.says(" J (from its power)"));
    auto const lines = lines_of(read_text(file));
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].find(",exit_code,gpu_stats_gpu_0_utilization_percent,") != std::string::npos);
    CHECK(lines[1].find(",7,") != std::string::npos);

    auto const json = run_on(machine, {"monitor", "--json", "--", "sh", "-c", "kill -9 $$"});
    CHECK(json.status == 128 + SIGKILL);
    CHECK(json.out.empty());
    auto const rows = lines_of(json.err);
    REQUIRE_FALSE(rows.empty());
    Answer const answer(rows.back());
    CHECK(answer.text("schema") == "shardwise.monitor_summary/1");
    CHECK(answer.integer("exit_code") == 128 + SIGKILL);
    CHECK(answer.integer("samples") >= 2);
}

TEST_CASE("monitor -- COMMAND: one that cannot start exits 1 and is named") {
    FakeMachine machine;
    auto const absent = run_on(machine, {"monitor", "--", "shardwise-no-such-program"});
    CHECK(absent.status == 1);
    CHECK(absent.says("shardwise-no-such-program: cannot be started"));
    auto const folder = run_on(machine, {"monitor", "--", "/"});
    CHECK(folder.status == 1);
    CHECK(folder.says("/: cannot be started"));
}

TEST_CASE("monitor -- COMMAND: signals are passed on, and nothing is left behind") {
    FakeMachine machine;
    TemporaryFolder const folder;
    std::string const mark = "SHARDWISE_TEST_MARK=" + folder.path();
    auto const script = [&](std::string const& name, std::string const& last) {
        return "export " + mark + "; setsid sh -c 'trap \"\" TERM; sleep 60' & sleep 60 & touch " + folder.path() + "/" + name +
               "; " + last;
    };
    struct Case {
        char const* name;
        std::string last;
        int signal;
        int status;
    };
    for (auto const& [called, last, signal, status] :
         {Case{"ends", "exit 5", 0, 5}, Case{"term", "exec sleep 60", SIGTERM, 143}, Case{"int", "exec sleep 60", SIGINT, 130},
          Case{"hup", "exec sleep 60", SIGHUP, 129}}) {
        auto const& name = called;
        auto const ran = run_monitor(machine, {"--", "sh", "-c", script(name, last)}, [&, to = folder.path() + "/" + name, sent = signal](pid_t process) {
            CHECK(wait_for_file(to));
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            if (sent != 0) ::kill(process, sent);
        });
        CHECK_MESSAGE(ran.status == status, name, ": ", ran.err);
        CHECK_MESSAGE(ran.says("had left running"), name, ": ", ran.err);
        CHECK_MESSAGE(count_marked(folder) == 0, name);
    }
}

TEST_CASE("monitor -- COMMAND: kill -9 of the monitor leaves nothing, also in sessions of their own") {
    FakeMachine machine;
    TemporaryFolder const folder;
    std::string const mark = "SHARDWISE_TEST_MARK=" + folder.path();
    auto const script = "export " + mark + "; setsid sh -c 'trap \"\" TERM; sleep 60' & (sleep 60) & kill -STOP $!; touch " +
                        folder.path() + "/ready; exec sleep 60";
    (void)run_monitor(machine, {"--", "sh", "-c", script}, [&](pid_t process) {
        CHECK(wait_for_file(folder.path() + "/ready"));
        CHECK(shardwise::testing::comes_true(std::chrono::seconds(5), [&] { return count_marked(folder) >= 3; }));
        ::kill(process, SIGKILL);
    });
    CHECK(shardwise::testing::comes_true(std::chrono::seconds(5), [&] { return count_marked(folder) == 0; }));
}

TEST_CASE("monitor: a call that hangs is named, and the program ends") {
    FakeMachine machine;
    machine.nvidia(two_gpus() + "sleep call=nvmlDeviceGetUtilizationRates milliseconds=20000\n");
    auto const begin = std::chrono::steady_clock::now();
    auto const ran = run_on(machine, {"monitor", "--", "sh", "-c", "sleep 3; exit 6"});
    CHECK(ran.status == 6);
    CHECK(ran.says("nvmlDeviceGetUtilizationRates has not returned"));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(12));
}
