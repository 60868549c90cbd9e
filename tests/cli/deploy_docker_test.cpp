// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "docker_daemon.hpp"
#include "fake_machine.hpp"
#include "program.hpp"
#include "skip.hpp"

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise::tests;

namespace {

constexpr auto canary = "canaryCANARY0123456789";

[[nodiscard]] bool has(std::string const& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

/// The daemon with the words of one deployment for a processor.
struct Fixture {
    DockerDaemon daemon;
    std::vector<std::string> words{"deploy",  "tei",    "bert-base-uncased", "--devices", "cpu",
                                   "--image", DockerDaemon::image, "--port", "39871"};

    [[nodiscard]] Ran deploy(std::vector<std::string> const& more, std::function<void(pid_t)> const& meanwhile = {}) const {
        auto all = words;
        all.insert(all.end(), more.begin(), more.end());
        return daemon.run(all, {{"HF_TOKEN", canary}}, meanwhile);
    }
    /// What failed has left nothing, and said no secret.
    void check_failure(Ran const& ran, int status, std::string_view reason) const {
        CHECK_MESSAGE(ran.status == status, ran.err);
        CHECK_MESSAGE(has(ran.err, reason), ran.err);
        CHECK(ran.out.empty());
        CHECK_FALSE(has(ran.err, canary));
        CHECK(daemon.docker("ps --all --quiet").empty());
    }
};

void check_engines(Fixture const& fixture) {
    auto const& daemon = fixture.daemon;
    auto const healthy = fixture.deploy({});
    REQUIRE_MESSAGE(healthy.status == 0, healthy.err);
    CHECK(healthy.out == "http://127.0.0.1:39871\n");
    CHECK_MESSAGE(has(healthy.err, "healthy: pulling "), healthy.err);
    CHECK_FALSE(has(healthy.err, canary));
    CHECK(daemon.docker("inspect --format '{{.State.Status}} {{.HostConfig.ShmSize}} {{.Config.Cmd}}' shardwise-tei-39871") ==
          "running 1073741824 [--model-id bert-base-uncased --hostname 0.0.0.0 --port 80 --dtype float32]\n");
    // Its port is in use, which is seen before docker is asked.
    auto const second = fixture.deploy({});
    CHECK(second.status == 2);
    CHECK_MESSAGE(has(second.err, "39871 is in use"), second.err);
    (void)daemon.docker("rm --force shardwise-tei-39871");

    auto const failed = fixture.deploy({"--env", "MODE=fail"});
    fixture.check_failure(failed, 1, "ended with exit code 7 while it loaded (out of memory: no)");
    CHECK_MESSAGE(has(failed.err, "lines of shardwise-tei-39871:\n  step 12\n"), failed.err);
    CHECK(has(failed.err, "  step 40\n"));
    CHECK(has(failed.err, "  token [HF_TOKEN]\n"));
    fixture.check_failure(fixture.deploy({"--env", "MODE=silent", "--timeout", "5"}), 1,
                          "not healthy after 5 s: still loading");
    fixture.check_failure(fixture.deploy({"--env", "MODE=silent"},
                                         [&](pid_t process) {
                                             for (int i = 0; i < 100 && daemon.docker("ps --quiet").empty(); ++i)
                                                 std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                             (void)::kill(process, SIGINT);
                                         }),
                          130, "nothing is left running");
    daemon.before_run("set -- run --memory 32m \"$@\"");
    fixture.check_failure(fixture.deploy({"--env", "MODE=memory"}), 1, "exit code 137 while it loaded (out of memory: yes)");
    daemon.before_run("");
}

void check_refusals(Fixture const& fixture) {
    auto const& daemon = fixture.daemon;
    // The port is taken after it was looked at: by another container, and by a process.
    daemon.before_run("$real run --detach --rm --name thief --publish 127.0.0.1:39871:80 " + std::string(DockerDaemon::image) +
                      " >/dev/null; trap '$real rm --force thief >/dev/null' EXIT; $real run \"$@\"; exit");
    fixture.check_failure(fixture.deploy({}), 1, "which another container has");
    daemon.before_run("busybox httpd -f -p 127.0.0.1:39871 & trap \"kill $!\" EXIT; sleep 0.2; $real run \"$@\"; exit");
    fixture.check_failure(fixture.deploy({}), 1, "which is in use");
    daemon.before_run("");
    (void)daemon.docker("create --name shardwise-tei-39871 " + std::string(DockerDaemon::image));
    auto const named = fixture.deploy({});
    CHECK_MESSAGE(has(named.err, "has a container of this name already"), named.err);
    // Somebody else's container stays.
    CHECK_FALSE(daemon.docker("ps --all --quiet").empty());
    (void)daemon.docker("rm shardwise-tei-39871");

    shardwise::testing::FakeMachine machine;
    machine.nvidia("gpu name=\"NVIDIA GeForce RTX 4090\" uuid=GPU-4090-aaaa pci=00000000:01:00.0 memory=25769803776 "
                   "free=24696061952 capability=8.9 numa=0\n");
    auto const deploy_gpu = [&](std::vector<std::string> words) {
        words.insert(words.begin(), {"deploy", "vllm", "qwen3-4b", "--image", DockerDaemon::image, "--port", "39872"});
        return daemon.run(words, {{"SHARDWISE_NVML", machine.options().nvml_library},
                                  {"SHARDWISE_AMD_SMI", machine.options().amd_smi_libraries[0]},
                                  {"SHARDWISE_SYSTEM_ROOT", machine.options().root}});
    };
    fixture.check_failure(deploy_gpu({"--devices", "0"}), 1,
                          "has no NVIDIA container toolkit; install nvidia-container-toolkit");
    fixture.check_failure(deploy_gpu({"--devices", "0", "--cdi"}), 1, "container device interface");
    fixture.check_failure(deploy_gpu({"--devices", "1xMI300X"}), 1, "/dev/kfd");
    auto const elsewhere =
        daemon.run({"deploy", "tei", "bert-base-uncased", "--devices", "cpu", "--image", "no.such.host/x:1"});
    fixture.check_failure(elsewhere, 1, "does not reach the image's registry");
}

}  // namespace

TEST_CASE("deploy: a real docker starts, tells of failures, and has nothing left") {
    Fixture const fixture;
    if (!fixture.daemon.missing().empty()) {
        shardwise::testing::note_absent_tool(fixture.daemon.missing());
        return;
    }
    check_engines(fixture);
    check_refusals(fixture);
}
