// SPDX-License-Identifier: Apache-2.0
#include <shardwise/deploy/formats/apptainer.hpp>
#include <shardwise/deploy/formats/compose.hpp>
#include <shardwise/deploy/formats/kubernetes.hpp>

#include "deployments.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise::tests::deployment;
using shardwise::tests::docker_line;

namespace {

[[nodiscard]] bool has(std::string const& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

/// What bash makes of a line: each word followed by a zero byte.
[[nodiscard]] std::string words_of_bash(std::string const& line) {
    auto const command = "bash -c " + shell_word("printf '%s\\0' " + line);
    std::string out;
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::array<char, 4096> buffer{};
    while (auto const count = std::fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), count);
    CHECK(::pclose(pipe) == 0);
    return out;
}

}  // namespace

TEST_CASE("shell_line: bash reads random words back as they were") {
    std::mt19937 random(24);
    std::vector<std::string> words;
    std::string expected;
    constexpr std::string_view letters = "ab \t\n'\"\\$`!*?[]{}()<>|&;#~=%^,.:/-_\xC3\xA9";
    for (int i = 0; i < 300; ++i) {
        std::string word;
        auto const length = random() % 9;
        for (std::size_t k = 0; k < length; ++k) word += letters[random() % letters.size()];
        words.push_back(word);
        expected += word + '\0';
    }
    CHECK(words_of_bash(shell_line(words)) == expected);
}

TEST_CASE("docker_command: values of variables and paths come back from bash") {
    auto request = deployment(Engine::vllm, 2);
    request.environment = {{"A", "it's $HOME `x` \"y\""}, {"B", std::nullopt}};
    request.host_address = "::1";
    auto const words = docker_command(*make_container(request));
    std::string expected;
    for (auto const& word : words) expected += word + '\0';
    CHECK(words_of_bash(shell_line(words)) == expected);
    CHECK(has(expected, "[::1]:8000:8000"));
    CHECK(words.front() == "docker");
}

TEST_CASE("compose_text: devices by id, health, shared memory, variables by name") {
    auto request = deployment(Engine::vllm, 2);
    request.devices[1].index = 3;
    request.environment = {{"A", "$HOME"}};
    auto const text = compose_text(*make_container(request));
    CHECK(has(text,
              "            - driver: nvidia\n              device_ids:\n                - \"0\"\n                - \"3\"\n"
                    "              capabilities: [gpu]\n"));
    CHECK(has(text, "    shm_size: 2gb\n"));
    CHECK(has(text, "    environment:\n      - \"HF_TOKEN\"\n      - \"A=$$HOME\"\n"));
    CHECK(has(text, "    healthcheck:\n"));
    CHECK(has(text, "volumes:\n  vllm-cache: {}\n"));
    auto const amd = compose_text(*make_container(deployment(Engine::vllm, 1, DeviceKind::hip)));
    CHECK(has(amd, "    devices:\n      - \"/dev/kfd\"\n      - \"/dev/dri/renderD128\"\n"));
}

TEST_CASE("kubernetes_text: a Deployment and a Service with probes, shared memory in memory, secrets by reference") {
    auto request = deployment(Engine::vllm, 2);
    request.environment = {{"A", "$(B) $$ $c"}};
    auto const text = kubernetes_text(*make_container(request), false);
    for (auto const* const part :
         {"kind: Deployment\n", "kind: Service\n", "startupProbe:\n", "readinessProbe:\n", "livenessProbe:\n",
          "medium: Memory\n            sizeLimit: 2Gi\n", "nvidia.com/gpu: \"2\"\n", "secretKeyRef:\n",
          "key: \"HF_TOKEN\"\n", R"(value: "$$(B) $$$ $c")"})
        CHECK_MESSAGE(has(text, part), part);
    CHECK_FALSE(has(text, "ResourceClaim"));
    auto const claims = kubernetes_text(*make_container(deployment(Engine::vllm, 2, DeviceKind::hip)), true);
    CHECK(has(claims, "kind: ResourceClaimTemplate\n"));
    CHECK(has(claims, "deviceClassName: gpu.amd.com\n"));
    CHECK_FALSE(has(claims, "amd.com/gpu:"));
}

TEST_CASE("kubernetes_text: over several nodes a LeaderWorkerSet, whose leader serves") {
    auto const group = [](Engine engine) {
        auto request = deployment(engine, 4);
        request.devices[2].node = request.devices[3].node = 1;
        return *make_container(request);
    };
    auto const container = group(Engine::vllm);
    CHECK(container.nodes == 2);
    CHECK(container.devices.size() == 2);
    auto const text = kubernetes_text(container, false);
    CHECK(text.rfind("apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n", 0) == 0);
    for (auto const* const part :
         {"    size: 2\n", "nvidia.com/gpu: \"2\"\n", "sizeLimit: 2Gi\n",
          "              - \"--tensor-parallel-size\"\n              - \"4\"\n",
          "              - \"--nnodes\"\n              - \"$(LWS_GROUP_SIZE)\"\n              - \"--node-rank\"\n"
          "              - \"$(LWS_WORKER_INDEX)\"\n              - \"--master-addr\"\n"
          "              - \"$(LWS_LEADER_ADDRESS)\"\n"
          "            ports:\n",
          "              - \"--headless\"\n            env:\n",
          "  selector:\n    app: \"shardwise-vllm-8000\"\n    role: leader\n"})
        CHECK_MESSAGE(has(text, part), part);
    CHECK(text.find("startupProbe") == text.rfind("startupProbe"));
    auto const sglang = kubernetes_text(group(Engine::sglang), true);
    CHECK(has(sglang, "- \"--dist-init-addr\"\n              - \"$(LWS_LEADER_ADDRESS):50000\"\n"));
    CHECK_FALSE(has(sglang, "--headless"));
    CHECK(has(sglang, "kind: ResourceClaimTemplate\n"));
    CHECK(has(sglang, "            count: 2\n"));

    auto request = deployment(Engine::llama_server, 4);
    request.devices[3].node = 1;
    CHECK(has(docker_line(request), "are on 2 nodes, and llama-server runs on one"));
    request.engine = Engine::vllm;
    request.tp = 4;
    CHECK(has(docker_line(request), "not equally many on each of the 2 nodes"));
}

TEST_CASE("docker_command, apptainer_command: random deployments come back from bash") {
    std::mt19937 random(25);
    constexpr std::string_view letters = "ab \t'\"\\$`!*?[]{}()<>|&;#~=%^,./-_\xC3\xA9";
    auto const word = [&] {
        std::string text;
        for (auto length = random() % 12; length > 0; --length) text += letters[random() % letters.size()];
        return text;
    };
    std::string lines;
    std::string expected;
    for (int i = 0; i < 60; ++i) {
        auto request = deployment(i % 2 == 0 ? Engine::vllm : Engine::sglang, 2);
        request.place = i % 3 == 0 ? ModelPlace::hub : ModelPlace::folder;
        request.model = "/" + word();
        request.hub_cache = "/" + word();
        request.image = "i" + word();
        for (auto const& device : {0U, 1U}) request.devices[device].uuid = "GPU-" + word();
        for (auto const* const name : {"A", "B", "C"}) request.environment.push_back({name, word()});
        auto const container = make_container(request);
        REQUIRE_MESSAGE(container.has_value(), container.error().message());
        auto const start = docker_start_command(*container, "k=v");
        for (auto const& words : {docker_command(*container), start, apptainer_command(*container)}) {
            lines += " " + shell_line(words);
            for (auto const& one : words) expected += one + '\0';
        }
    }
    CHECK(words_of_bash(lines) == expected);
}

TEST_CASE("apptainer_command: the host's network, devices by the runtime's variables") {
    auto request = deployment(Engine::vllm, 2);
    request.devices[1].index = 3;
    request.has_host_network = true;
    request.port = 9000;
    request.environment = {{"A", "b,c"}, {"D", std::nullopt}};
    auto const line = shell_line(apptainer_command(*make_container(request)));
    CHECK(line ==
          "env APPTAINERENV_CUDA_DEVICE_ORDER=PCI_BUS_ID APPTAINERENV_CUDA_VISIBLE_DEVICES=0,3 APPTAINERENV_A=b,c "
          "apptainer exec --nv --bind /home/me/.cache/huggingface/hub:/root/.cache/huggingface/hub "
          "docker://vllm/vllm-openai:v0.33.0 vllm serve meta-llama/Meta-Llama-3-8B --host 127.0.0.1 --port 9000 "
          "--tensor-parallel-size 2 --pipeline-parallel-size 1 --max-model-len 8192 --max-num-seqs 4 "
          "--gpu-memory-utilization 0.2501");
    auto const amd = shell_line(apptainer_command(*make_container(deployment(Engine::tgi, 1, DeviceKind::hip))));
    CHECK(amd.rfind("env APPTAINERENV_ROCR_VISIBLE_DEVICES=0 apptainer run --rocm --bind", 0) == 0);
}
