// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "fake_machine.hpp"
#include "program.hpp"

#include <arpa/inet.h>
#include <filesystem>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise::tests;
using shardwise::testing::FakeMachine;

namespace {

[[nodiscard]] bool has(std::string const& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

/// A GGUF file of the golden data.
[[nodiscard]] std::string first_gguf() {
    for (auto const& entry : std::filesystem::directory_iterator(SHARDWISE_SOURCE_DIR "/tests/golden/gguf")) {
        if (entry.path().extension() == ".gguf") return entry.path().filename().string();
    }
    return {};
}

/// `deploy` with these words, as a dry run.
[[nodiscard]] Ran deploy(std::vector<std::string> words,
                         std::vector<std::pair<std::string, std::string>> const& environment = {}) {
    words.insert(words.begin(), "deploy");
    words.emplace_back("--dry-run");
    return run(words, environment);
}

/// Refused: a status, one line on stderr that says why, nothing on stdout.
void check_refusal(Ran const& ran, int status, std::string_view reason) {
    CHECK_MESSAGE(ran.status == status, ran.err);
    CHECK_MESSAGE(has(ran.err, reason), ran.err);
    CHECK(ran.out.empty());
}

/// GPUs of 24 GiB of which the driver calls the first one 0; the last has a GiB left.
[[nodiscard]] std::string three_gpus() {
    std::string rows;
    for (int i = 0; i < 3; ++i) {
        auto const number = std::to_string(i);
        rows += "gpu name=\"NVIDIA GeForce RTX 4090\" uuid=GPU-4090000" + number + "-aaaa pci=00000000:0" + number +
                ":00.0 memory=25769803776 free=" + (i == 2 ? "1073741824" : "24696061952") + " capability=8.9 numa=0\n";
    }
    return rows;
}

[[nodiscard]] Ran deploy_on(FakeMachine& machine, std::vector<std::string> const& words,
                            std::vector<std::pair<std::string, std::string>> environment = {}) {
    for (auto const* variable :
         {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"})
        ::unsetenv(variable);
    environment.emplace_back("SHARDWISE_NVML", machine.options().nvml_library);
    environment.emplace_back("SHARDWISE_AMD_SMI", machine.options().amd_smi_libraries[0]);
    environment.emplace_back("SHARDWISE_SYSTEM_ROOT", machine.options().root);
    return deploy(words, environment);
}

}  // namespace

TEST_CASE("deploy: one line that starts with docker, for exactly the devices of a SPEC") {
    auto const ran = deploy({"vllm", "llama-3-8b", "--devices", "2xA100-80GB", "--context", "8k", "--sequences", "4"});
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    CHECK(ran.out.rfind("docker run ", 0) == 0);
    CHECK(ran.out.find('\n') == ran.out.size() - 1);
    CHECK(has(ran.out, R"(--gpus '"device=0,1"' )"));
    CHECK(has(ran.out, "--tensor-parallel-size 2 --pipeline-parallel-size 1 --max-model-len 8192 --max-num-seqs 4 "));
    CHECK(has(ran.err, "is a preset and names no files"));
    // Half of 16.06 GB of weights and of 4 x 8192 tokens of 131,072 B, and what else a rank takes.
    auto const at = ran.out.find("--gpu-memory-utilization ") + 25;
    auto const share = std::stod(ran.out.substr(at));
    CHECK(share > (8.03e9 + 2.147e9) / 85899345920.0);
    CHECK(share < 0.25);
}

TEST_CASE("deploy: each engine and vendor gets a line") {
    for (auto const* const devices : {"1xH100-80GB", "2xH100-80GB", "2xMI300X"}) {
        for (auto const* const engine : {"vllm", "llama-server", "tgi"}) {
            auto const ran = deploy({engine, "llama-3-8b", "--devices", devices});
            CHECK_MESSAGE(ran.status == 0, ran.err);
            CHECK(has(ran.out, std::string(devices) == "2xMI300X" ? "--device /dev/kfd --device /dev/dri/renderD128 --device "
                                                                    "/dev/dri/renderD129"
                               : devices[0] == '1'                ? "--gpus device=0 "
                                                                  : "--gpus '\"device=0,1\"'"));
        }
    }
    CHECK(has(deploy({"sglang", "llama-3-8b", "--devices", "2xH100-80GB"}).out, "--tp-size 2 --pp-size 1"));
    check_refusal(deploy({"sglang", "llama-3-8b", "--devices", "2xMI300X"}), 2, "name an image by --image");
    CHECK(has(deploy({"tei", "bert-base-uncased", "--devices", "1xL4"}).out, "text-embeddings-inference:89-1.9"));
    CHECK(has(deploy({"tei", "bert-base-uncased", "--devices", "cpu"}).out, "text-embeddings-inference:cpu-1.9"));
}

TEST_CASE("deploy: refuses before anything starts, and takes the smallest change") {
    struct Row {
        int status;
        std::vector<std::string> words;
        char const* reason;
        /// The smallest change with which it is taken.
        std::vector<std::string> changed;
    };
    std::string const gguf = SHARDWISE_SOURCE_DIR "/tests/golden/gguf/" + first_gguf();
    for (auto const& row : std::vector<Row>{
             {3, {"vllm", "llama-3-70b", "--devices", "1xA100-80GB"}, "--quant fp8",
              {"vllm", "llama-3-70b", "--devices", "1xA100-80GB", "--quant", "fp8"}},
             {3, {"vllm", "llama-3-70b", "--devices", "2xA100-40GB"}, "needs",
              {"vllm", "llama-3-70b", "--devices", "4xA100-40GB"}},
             {2, {"tgi", "llama-3-8b", "--devices", "3xA100-80GB"},
              "32 heads are not divisible by tp 3; name as many devices as one of the legal tensor-parallel degrees: 1, 2, 4",
              {"tgi", "llama-3-8b", "--devices", "2xA100-80GB"}},
             {2, {"vllm", "llama-3-8b", "--devices", "3xA100-80GB"}, "not divisible by tp 3",
              {"vllm", "llama-3-8b", "--devices", "4xA100-80GB"}},
             {2, {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--context", "8193"}, "at most 8192",
              {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--context", "8192"}},
             {2, {"tei", "bert-base-uncased", "--devices", "2xL4"}, "tei runs on one device",
              {"tei", "bert-base-uncased", "--devices", "1xL4"}},
             {2, {"tei", "llama-3-8b", "--devices", "1xH100-80GB"}, "which tei does not serve",
              {"tei", "qwen3-4b", "--devices", "1xH100-80GB"}},
             {2, {"tei", "bert-base-uncased", "--devices", "1xL4", "--dtype", "bf16"}, "tei takes float16, float32",
              {"tei", "bert-base-uncased", "--devices", "1xL4", "--dtype", "fp16"}},
             {2, {"tei", "bert-base-uncased", "--devices", "cpu", "--dtype", "fp16"}, "float32 only",
              {"tei", "bert-base-uncased", "--devices", "cpu", "--dtype", "fp32"}},
             {2, {"tei", "bert-base-uncased", "--devices", "1xL4", "--image",
                  "ghcr.io/huggingface/text-embeddings-inference:hopper-1.9"}, "built for compute capability 9.0",
              {"tei", "bert-base-uncased", "--devices", "1xL4", "--image",
               "ghcr.io/huggingface/text-embeddings-inference:86-1.9"}},
             {2, {"tgi", "llama-3-8b", "--devices", "1xH100-80GB", "--quant", "awq", "--dtype", "fp16"}, "--quant",
              {"tgi", "llama-3-8b", "--devices", "1xH100-80GB", "--quant", "awq"}},
             {2, {"tgi", "llama-3-8b", "--devices", "1xH100-80GB", "--dtype", "fp32"}, "tgi takes float16, bfloat16",
              {"tgi", "llama-3-8b", "--devices", "1xH100-80GB", "--dtype", "bf16"}},
             {2, {"tgi", "llama-3-8b", "--devices", "2xH100-80GB", "--quant", "exl2"}, "one shard",
              {"tgi", "llama-3-8b", "--devices", "1xH100-80GB", "--quant", "exl2"}},
             {2, {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--quant", "Q4_K_M"}, "vllm has no such quantisation",
              {"llama-server", "llama-3-8b", "--devices", "1xH100-80GB", "--quant", "Q4_K_M"}},
             {2, {"tgi", gguf, "--devices", "1xH100-80GB"}, "is a GGUF file, which tgi does not read",
              {"llama-server", gguf, "--devices", "1xH100-80GB"}},
             {2, {"vllm", gguf, "--devices", "1xH100-80GB"}, "is a GGUF file, which vllm does not read",
              {"sglang", gguf, "--devices", "1xH100-80GB"}},
             {2, {"llama-server", gguf, "--devices", "1xH100-80GB", "--quant", "Q2_K"},
              "cannot change the types of a GGUF file",
              {"llama-server", gguf, "--devices", "1xH100-80GB"}},
             {2, {"tei", gguf, "--devices", "1xH100-80GB"}, "is a GGUF file, which tei does not read",
              {"llama-server", gguf, "--devices", "cpu"}},
             {2, {"vllm", "qwen3-4b", "--devices", "1xV100-32GB"}, "compute capability 7.0",
              {"vllm", "qwen3-4b", "--devices", "1xT4"}},
             {2, {"vllm", "llama-3-8b", "--devices", "2x(2xH100-80GB)"}, "on several nodes, and a container runs on one",
              {"vllm", "llama-3-8b", "--devices", "2x(2xH100-80GB)", "--format", "kubernetes"}},
             {2, {"tgi", "llama-3-8b", "--devices", "2x(2xH100-80GB)", "--format", "kubernetes"},
              "2 nodes, and tgi runs on one",
              {"tgi", "llama-3-8b", "--devices", "2xH100-80GB", "--format", "kubernetes"}},
             {2, {"sglang", "llama-3-8b", "--devices", "1x(2xH100-80GB)+1x(1xH100-80GB)", "--format", "kubernetes"},
              "not equally many on each of the 2 nodes",
              {"sglang", "llama-3-8b", "--devices", "1x(1xH100-80GB)+1x(1xH100-80GB)", "--format", "kubernetes"}},
             {2, {"vllm", "smollm2-135m", "--devices", "cpu"}, "has no image for cpu",
              {"vllm", "smollm2-135m", "--devices", "cpu", "--image", "mine:1"}},
             {2, {"vlm", "llama-3-8b", "--devices", "1xH100-80GB"}, "did you mean vllm?",
              {"vllm", "llama-3-8b", "--devices", "1xH100-80GB"}},
             {2, {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--port", "0"}, "--port",
              {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--port", "1"}},
             {2, {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--host-address", "a b"}, "--host-address",
              {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--host-address", "0.0.0.0"}},
             {2, {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--claims"}, "--format kubernetes",
              {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--claims", "--format", "kubernetes"}},
             {2, {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--image", "a b"}, "--image",
              {"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--image", "a"}},
         }) {
        CAPTURE(row.reason);
        check_refusal(deploy(row.words), row.status, row.reason);
        auto const taken = deploy(row.changed);
        CHECK_MESSAGE(taken.status == 0, taken.err);
    }
    check_refusal(deploy({"vllm", "-", "--devices", "1xH100-80GB"}), 1, "config.json");
}

TEST_CASE("deploy: a folder is shown to the container, one with links out of it is refused") {
    TemporaryFolder const folder;
    auto const config = read_text(SHARDWISE_SOURCE_DIR "/tests/golden/deploy/config.json");
    folder.write("plain/config.json", config);
    auto const plain = deploy({"vllm", folder.path() + "/plain", "--devices", "1xL4"});
    REQUIRE_MESSAGE(plain.status == 0, plain.err);
    CHECK(has(plain.out, ":/model:ro "));
    CHECK(has(plain.out, " serve /model --host"));
    CHECK_FALSE(has(plain.out, "HF_TOKEN"));
    check_refusal(deploy({"llama-server", folder.path() + "/plain", "--devices", "1xL4"}), 2, "is no GGUF file");
    folder.write("blobs/config", config);
    folder.link("linked/config.json", folder.path() + "/blobs/config");
    check_refusal(deploy({"vllm", folder.path() + "/linked", "--devices", "1xL4"}), 2, "links out of its folder");
}

TEST_CASE("deploy: fixes are those that the engine takes") {
    auto const large = deploy({"llama-server", "llama-3-70b", "--devices", "1xA100-80GB"});
    CHECK_MESSAGE(has(large.err, "--quant Q8_0"), large.err);
    CHECK(deploy({"llama-server", "llama-3-70b", "--devices", "1xA100-80GB", "--quant", "Q8_0"}).status == 0);
}

TEST_CASE("deploy: warns of what may disappoint") {
    CHECK(has(deploy({"tgi", "llama-3-8b", "--devices", "1xH100-80GB"}).err, "in maintenance"));
    CHECK(has(deploy({"vllm", "llama-3-8b", "--devices", "4xL4", "--context", "2k"}).err, "without NVLink"));
    CHECK_FALSE(has(deploy({"vllm", "llama-3-8b", "--devices", "4xH100-80GB"}).err, "without NVLink"));
    CHECK(has(deploy({"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--quant", "awq"}).err, "the checkpoint must hold"));
    CHECK_FALSE(has(deploy({"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--quant", "fp8"}).err, "must hold"));
}

TEST_CASE("deploy: devices of this machine by number and UUID, refused where too little is free or the port is taken") {
    FakeMachine machine;
    machine.nvidia(three_gpus());
    auto const port = std::string("39417");
    auto const indices = deploy_on(machine, {"vllm", "qwen3-4b", "--devices", "0,1", "--port", port});
    REQUIRE_MESSAGE(indices.status == 0, indices.err);
    CHECK(has(indices.out, R"(--gpus '"device=0,1"')"));
    auto const one = deploy_on(machine, {"vllm", "qwen3-4b", "--devices", "GPU-40900001", "--port", port});
    CHECK(has(one.out, "--gpus device=GPU-40900001-aaaa "));
    // What the process sees as 0 is the host's 1.
    auto const masked = deploy_on(machine, {"vllm", "qwen3-4b", "--devices", "cuda:0", "--port", port},
                                  {{"CUDA_VISIBLE_DEVICES", "1"}});
    CHECK_MESSAGE(has(masked.out, "--gpus device=1 "), masked.err);
    check_refusal(deploy_on(machine, {"vllm", "qwen3-4b", "--devices", "2", "--port", port}), 3, "needs");
    check_refusal(deploy_on(machine, {"vllm", "qwen3-4b", "--devices", "7", "--port", port}), 4, "is not a device");

    int const listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener, 1) == 0);
    REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    auto const taken = std::to_string(ntohs(address.sin_port));
    check_refusal(deploy_on(machine, {"vllm", "qwen3-4b", "--devices", "0", "--port", taken}), 2, taken + " is in use");
    // A SPEC's devices are elsewhere.
    CHECK(deploy({"vllm", "qwen3-4b", "--devices", "1xL4", "--port", taken}).status == 0);
    ::close(listener);
    CHECK(deploy_on(machine, {"vllm", "qwen3-4b", "--devices", "0", "--port", taken}).status == 0);
}

TEST_CASE("deploy: a secret is in no output") {
    constexpr auto canary = "canaryCANARY0123456789";
    for (auto const* const name : {"HF_TOKEN", "X", "MY_API_KEY"}) {
        auto const ran = deploy({"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--env", std::string(name) + "=" + canary});
        check_refusal(ran, 2, std::string("write --env ") + name);
        CHECK_FALSE(has(ran.err, canary));
    }
    for (auto const* const format : {"docker", "compose", "kubernetes", "apptainer"}) {
        auto const ran = deploy({"vllm", "llama-3-8b", "--devices", "1xH100-80GB", "--env", "MY_API_KEY", "--env",
                                 "NCCL_DEBUG=INFO", "--format", format},
                                {{"HF_TOKEN", canary}, {"MY_API_KEY", canary}});
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        CHECK_FALSE(has(ran.out + ran.err, canary));
        CHECK(has(ran.out, "NCCL_DEBUG"));
    }
    CHECK_FALSE(has(deploy({"vllm", "llama-3-8b", "--evn", std::string("HF_TOKEN=") + canary}).err, canary));
}

TEST_CASE("deploy --format: files for compose and Kubernetes, a line for Apptainer") {
    auto const written = [](std::vector<std::string> words, char const* format) {
        words.insert(words.begin(), {"vllm", "llama-3-8b", "--devices", "2xH100-80GB", "--format", format});
        return deploy(words).out;
    };
    CHECK(written({}, "compose").rfind("services:\n  shardwise-vllm-8000:\n", 0) == 0);
    CHECK(written({}, "kubernetes").rfind("apiVersion: apps/v1\nkind: Deployment\n", 0) == 0);
    CHECK(has(written({"--claims"}, "kubernetes"), "kind: ResourceClaimTemplate"));
    CHECK(has(written({}, "apptainer"), " apptainer exec --nv "));
}

TEST_CASE("deploy --auto-select: the fewest devices on which it fits, the best joined and freest of them") {
    FakeMachine machine;
    machine.nvidia(three_gpus());
    // 4 B parameters fit one GPU of 24 GiB, 8.2 B need two beside 8 sequences; the third is full.
    auto const one = deploy_on(machine, {"vllm", "qwen3-4b", "--auto-select", "--port", "39418"});
    CHECK_MESSAGE(has(one.out, "--gpus device=0 "), one.err);
    auto const two = deploy_on(machine, {"vllm", "qwen3-8b", "--auto-select", "--context", "8k", "--sequences", "8", "--port",
                                         "39418"});
    CHECK_MESSAGE(has(two.out, "--gpus '\"device=0,1\"' "), two.err);
    check_refusal(deploy_on(machine, {"vllm", "llama-3-70b", "--auto-select", "--port", "39418"}), 3, "needs");
    // Of four devices two, because the heads do not divide by three.
    auto const spec = deploy({"tgi", "llama-3-70b", "--devices", "4xA100-80GB", "--auto-select"});
    CHECK_MESSAGE(has(spec.out, "--num-shard 2 "), spec.err);
    CHECK_FALSE(has(deploy({"tei", "bert-base-uncased", "--devices", "4xL4", "--auto-select"}).out, "device=0,"));
}

TEST_CASE("deploy --detect-only: devices, docker, and what would be chosen") {
    FakeMachine machine;
    machine.nvidia(three_gpus());
    TemporaryFolder const folder;
    // A docker whose daemon does not answer.
    auto const docker = folder.write("docker", "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Docker version 9.8.7, build x'\n"
                                               "[ \"$1\" = --version ]\n");
    REQUIRE(::chmod(docker.c_str(), 0700) == 0);
    auto const on = [&](std::vector<std::string> words, std::string const& path) {
        words.insert(words.begin(), "deploy");
        words.insert(words.end(), {"--detect-only", "--port", "39418"});
        return run(words, {{"SHARDWISE_NVML", machine.options().nvml_library},
                           {"SHARDWISE_AMD_SMI", machine.options().amd_smi_libraries[0]},
                           {"SHARDWISE_SYSTEM_ROOT", machine.options().root},
                           {"PATH", path}});
    };
    auto const bare = on({"vllm"}, folder.path());
    REQUIRE_MESSAGE(bare.status == 0, bare.err);
    CHECK_MESSAGE(has(bare.out, ", 1.00 GiB free of 24.00 GiB\ndocker: 9.8.7\ndocker daemon: does not answer\n"
                                "NVIDIA container toolkit: not installed\n"),
                  bare.out);
    CHECK_FALSE(has(bare.out, "chosen"));
    auto const none = on({"vllm", "qwen3-4b", "--auto-select"}, "/nowhere");
    CHECK(has(none.out, "docker: not installed\n"));
    CHECK_MESSAGE(has(none.out, "chosen: vllm on 0, tp 1, pp 1, "), none.out);
}
