// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "fake_docker.hpp"
#include "program.hpp"
#include "shell.hpp"
#include "skip.hpp"

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise::tests;
using namespace std::chrono_literals;

namespace {

[[nodiscard]] bool has(std::string const& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

/// The words of a line as bash reads it, and those of the fake, each ended by a zero byte.
[[nodiscard]] std::string words_of(std::string const& line) {
    return run_command_line({"bash", "-c", "printf '%s\\0' " + line}).out;
}

void check_failure(Ran const& ran, std::string_view reason) {
    CHECK_MESSAGE(ran.status == 1, ran.err);
    CHECK_MESSAGE(has(ran.err, reason), ran.err);
    CHECK(ran.out.empty());
}

}  // namespace

TEST_CASE("deploy: starts docker with the words of the dry run, waits for /health, and leaves the container running") {
    FakeDocker const docker;
    docker.erase("image");
    auto const port = free_port();
    std::vector<std::string> requests;
    auto const words = std::vector<std::string>{"--port", port, "--env", "A=it's $HOME `x`", "--env", "MY_KEY"};
    auto const ran = docker.deploy(words, [&](pid_t) {
        REQUIRE(docker.wait_for("started"));
        requests = answer_requests(port, {"", "HTTP/1.1 503 Service Unavailable\r\n\r\n", "nonsense 200\r\n",
                                           "HTTP/1.0 200 OK\r\n\r\n"});
    });
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    CHECK(ran.out == "http://127.0.0.1:" + port + "\n");
    CHECK_MESSAGE(has(ran.err, "shardwise: healthy: pulling "), ran.err);
    CHECK(has(ran.err, " s, starting "));
    CHECK(has(ran.err, " s, loading "));
    CHECK_FALSE(docker.has("removed"));
    CHECK(docker.has("pulling"));
    REQUIRE(requests.size() == 4);
    CHECK(requests[3].rfind("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n", 0) == 0);

    auto dry = words;
    dry.emplace_back("--dry-run");
    auto const line = docker.deploy(dry).out;
    auto expected = words_of(line);
    auto started = std::string("docker") + '\0' + docker.text("words");
    auto const from = started.find("shardwise.start=");
    REQUIRE(from != std::string::npos);
    started.replace(from, started.find('\0', from) - from, "LABEL");
    auto const first = std::string("--rm");
    expected.replace(expected.find(first), first.size(), std::string("--detach\0--label\0LABEL", 22));
    CHECK_MESSAGE(started == expected, line);
    // The image is there now.
    docker.erase("pulling");
    docker.erase("started");
    auto const again = docker.deploy(words, [&](pid_t) {
        REQUIRE(docker.wait_for("started"));
        answer_requests(port, {"HTTP/1.1 200 OK\r\n\r\n"});
    });
    CHECK_MESSAGE(again.status == 0, again.err);
    CHECK_FALSE(docker.has("pulling"));
}

TEST_CASE("deploy: a container that ends is told of with its exit code, memory and last lines, and removed") {
    constexpr auto canary = "canaryCANARY0123456789";
    FakeDocker const docker;
    docker.write("state", "false 7 false\n");
    docker.write("logs", "loading\n\x1b[2Jwith " + std::string(canary) + "\n");
    docker.write("logs2", "no such weights\n");
    auto const ran = docker.deploy({"--port", free_port()}, {}, {{"HF_TOKEN", canary}});
    check_failure(ran, "ended with exit code 7 while it loaded (out of memory: no)");
    CHECK_MESSAGE(has(ran.err, "  loading\n  \\x1b[2Jwith [HF_TOKEN]\n  no such weights\n"), ran.err);
    CHECK_FALSE(has(ran.err, canary));
    CHECK(has(docker.text("calls"), "logs --tail 30 0123abcd\n"));
    CHECK_FALSE(has(docker.text("calls"), canary));
    CHECK(has(docker.text("calls"), "ps --all --quiet --filter label=shardwise.start="));
    CHECK(docker.text("removed") == "rm --force --volumes 0123abcd\n");

    docker.write("state", "false 137 true\n");
    docker.write("logs", "");
    docker.write("logs2", "");
    auto const killed = docker.deploy({"--port", free_port()});
    check_failure(killed, "ended with exit code 137 while it loaded (out of memory: yes)");
    CHECK(has(killed.err, "has said nothing"));
    docker.erase("state");
    check_failure(docker.deploy({"--port", free_port()}), "was removed by somebody else");
}

TEST_CASE("deploy: docker's own refusals say what to do") {
    FakeDocker const docker;
    // Texts of docker 20.10.24 and 28.2.2; tests/deploy/docker_refusal_test.cpp has all.
    for (auto const& [text, advice] :
         {std::pair{"docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].\n",
                    "install nvidia-container-toolkit"},
          std::pair{"docker: nvidia.com/gpu=0 is not an absolute path.\nSee 'docker run --help'.\n", "update docker"},
          std::pair{"docker: Error response from daemon: error gathering device information while adding custom device "
                    "\"/dev/kfd\": no such file or directory.\n",
                    "modprobe amdgpu"},
          std::pair{"Bind for 127.0.0.1:8080 failed: port is already allocated\n", "--port"}}) {
        docker.write("refusal", text);
        docker.erase("removed");
        check_failure(docker.deploy({"--port", free_port()}), advice);
        CHECK(docker.has("removed"));
    }
    docker.erase("removed");
    docker.erase("image");
    docker.write("pull_fails", "Error response from daemon: manifest for x:1 not found: manifest unknown\n");
    check_failure(docker.deploy({"--port", free_port()}), "no such tag of the image");
    CHECK_FALSE(docker.has("removed"));
    docker.write("no_daemon", "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?\n");
    check_failure(docker.deploy({"--port", free_port()}), "systemctl start docker");
    docker.erase("no_daemon");
    docker.write("context", "ssh://elsewhere\n");
    check_failure(docker.deploy({"--port", free_port()}), "on another machine");
    auto const none = run({"deploy", "tei", "bert-base-uncased", "--devices", "cpu", "--port", free_port()},
                          {{"PATH", "/nowhere"}});
    check_failure(none, "docker: is not installed");
}

TEST_CASE("deploy: nothing is waited for beyond --timeout") {
    FakeDocker const docker;
    docker.write("logs", "still reading\n");
    auto const start = std::chrono::steady_clock::now();
    auto const unhealthy = docker.deploy({"--port", free_port(), "--timeout", "2"});
    check_failure(unhealthy, "is not healthy after 2 s: still loading");
    CHECK(has(unhealthy.err, "  still reading\n"));
    CHECK(docker.has("removed"));
    docker.erase("removed");
    docker.erase("image");
    docker.write("pull_hangs", "");
    check_failure(docker.deploy({"--port", free_port(), "--timeout", "1"}), "still pulling");
    CHECK_FALSE(docker.has("removed"));
    // A client that ignores SIGTERM.
    docker.write("hang", "");
    check_failure(docker.deploy({"--port", free_port(), "--timeout", "1"}), "is not healthy after 1 s");
    CHECK(std::chrono::steady_clock::now() - start < 40s);
    for (auto const* const wrong : {"0", "-1", "1e3", "x", "604801"}) {
        auto const ran = docker.deploy({"--timeout", wrong});
        CHECK_MESSAGE(ran.status == 2, ran.err);
        CHECK(has(ran.err, "--timeout"));
    }
}

TEST_CASE("deploy: Ctrl-C ends the pull, or stops and removes what was started") {
    for (int const signal : {SIGINT, SIGTERM}) {
        FakeDocker const docker;
        auto const loading = docker.deploy({"--port", free_port()}, [&](pid_t process) {
            REQUIRE(docker.wait_for("started"));
            (void)::kill(process, signal);
        });
        CHECK_MESSAGE(loading.status == 128 + signal, loading.err);
        CHECK(has(loading.err, "nothing is left running"));
        CHECK(docker.text("removed") == "rm --force --volumes 0123abcd\n");
        docker.erase("removed");
        docker.erase("image");
        docker.write("pull_hangs", "");
        auto const pulling = docker.deploy({"--port", free_port()}, [&](pid_t process) {
            REQUIRE(docker.wait_for("pulling"));
            (void)::kill(process, signal);
        });
        CHECK_MESSAGE(pulling.status == 128 + signal, pulling.err);
        CHECK_FALSE(docker.has("removed"));
        auto const calls = docker.text("calls");
        CHECK_FALSE(has(calls.substr(calls.find("pull --quiet")), "run --detach"));
    }
}

TEST_CASE("deploy: only docker is started") {
    for (auto const* const format : {"compose", "kubernetes", "apptainer"}) {
        auto const ran = run({"deploy", "vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--format", format});
        CHECK_MESSAGE(ran.status == 2, ran.err);
        CHECK(has(ran.err, "add --dry-run"));
    }
}

TEST_CASE("deploy: a terminal shows the phases on one line, which goes in the end") {
    if (!is_installed("script")) {
        shardwise::testing::note_absent_tool("script");
        return;
    }
    FakeDocker const docker;
    docker.write("state", "true 0 false\n");
    auto const port = free_port();
    auto environment = docker.environment();
    environment.emplace_back("TERM", "xterm");
    auto const command =
        std::string("exec ") + SHARDWISE_PROGRAM + " deploy tei bert-base-uncased --devices cpu --port " + port;
    auto const ran = run_command_line({"script", "-qec", command, "/dev/null"}, environment, [&](pid_t) {
        REQUIRE(docker.wait_for("started"));
        std::this_thread::sleep_for(300ms);
        answer_requests(port, {"HTTP/1.1 200 OK\r\n\r\n"});
    });
    CHECK(ran.status == 0);
    CHECK_MESSAGE(has(ran.out, " s, loading 0."), ran.out);
    CHECK(has(ran.out, "\rpulling 0."));
    CHECK(has(ran.out, "\r\x1b[Kshardwise: healthy: pulling"));
}
