// SPDX-License-Identifier: Apache-2.0
#include <shardwise/deploy/make_container.hpp>

#include "deployments.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise::tests::deployment;
using shardwise::tests::docker_line;

namespace {

constexpr std::string_view cache = "--volume /home/me/.cache/huggingface/hub:";

[[nodiscard]] bool has(std::string const& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("make_container: the lines of all engines on one and several devices of NVIDIA") {
    CHECK(docker_line(deployment(Engine::vllm)) ==
          "docker run --rm --name shardwise-vllm-8000 --gpus device=0 --shm-size 1g --publish 127.0.0.1:8000:8000 " +
              std::string(cache) +
              "/root/.cache/huggingface/hub --volume vllm-cache:/root/.cache/vllm --env HF_TOKEN --entrypoint vllm "
              "vllm/vllm-openai:v0.33.0 serve meta-llama/Meta-Llama-3-8B --host 0.0.0.0 --port 8000 "
              "--tensor-parallel-size 1 --pipeline-parallel-size 1 --max-model-len 8192 --max-num-seqs 4 "
              "--gpu-memory-utilization 0.2501");
    auto two = deployment(Engine::vllm, 2);
    two.devices[0].index = 1;
    two.devices[1].index = 3;
    CHECK(has(docker_line(two), R"(--gpus '"device=1,3"' --shm-size 2g)"));
    CHECK(has(docker_line(two), "--tensor-parallel-size 2 --pipeline-parallel-size 1"));
    two.devices[0].uuid = "GPU-1";
    two.devices[1].uuid = "GPU-2";
    CHECK(has(docker_line(two), R"(--gpus '"device=GPU-1,GPU-2"')"));
    two.devices.pop_back();
    two.tp = 1;
    CHECK(has(docker_line(two), "--gpus device=GPU-1 "));
    CHECK(docker_line(deployment(Engine::sglang, 2)) ==
          "docker run --rm --name shardwise-sglang-30000 --gpus '\"device=0,1\"' --shm-size 2g --publish "
          "127.0.0.1:30000:30000 " +
              std::string(cache) +
              "/root/.cache/huggingface/hub --env HF_TOKEN --entrypoint python3 lmsysorg/sglang:v0.5.23 -m "
              "sglang.launch_server --model-path meta-llama/Meta-Llama-3-8B --host 0.0.0.0 --port 30000 --tp-size 2 "
              "--pp-size 1 --context-length 8192 --max-running-requests 4 --mem-fraction-static 0.2001");
    auto llama = deployment(Engine::llama_server, 2);
    llama.place = ModelPlace::file;
    llama.model = "/models/my llama.gguf";
    CHECK(docker_line(llama) ==
          "docker run --rm --name shardwise-llama-server-8080 --gpus '\"device=0,1\"' --shm-size 2g --publish "
          "127.0.0.1:8080:8080 --volume /models/:/model:ro ghcr.io/ggml-org/llama.cpp:server-cuda12-b9603 -m "
          "'/model/my llama.gguf' --host 0.0.0.0 --port 8080 -ngl all -sm layer -ts 16,16 -c 32768 -np 4 -ctk f16 -ctv "
          "f16 -fit off --metrics");
    CHECK(has(docker_line(deployment(Engine::tgi, 2)),
              ":/data --env HF_TOKEN ghcr.io/huggingface/text-generation-inference:3.3.5 --model-id "
              "meta-llama/Meta-Llama-3-8B --hostname 0.0.0.0 --port 80 --num-shard 2 --max-input-tokens 8191 "
              "--max-total-tokens 8192 --max-concurrent-requests 4 --cuda-memory-fraction 0.2501"));
    CHECK(has(docker_line(deployment(Engine::tei)),
              "ghcr.io/huggingface/text-embeddings-inference:hopper-1.9 --model-id BAAI/bge-base-en --hostname 0.0.0.0 "
              "--port 80 --dtype float16"));
}

TEST_CASE("make_container: AMD's devices are nodes, and processors get an image of their own") {
    auto const amd = docker_line(deployment(Engine::vllm, 2, DeviceKind::hip));
    CHECK(has(amd, "--device /dev/kfd --device /dev/dri/renderD128 --device /dev/dri/renderD129 --security-opt "
                   "seccomp=unconfined --group-add video"));
    CHECK(has(amd, "vllm/vllm-openai-rocm:v0.33.0 serve"));
    auto cdi = deployment(Engine::vllm, 2, DeviceKind::hip);
    cdi.has_cdi = true;
    CHECK(has(docker_line(cdi), "--device amd.com/gpu=0 --device amd.com/gpu=1 --shm-size"));
    auto const processor = docker_line(deployment(Engine::tei, 0));
    CHECK(has(processor, "text-embeddings-inference:cpu-1.9"));
    CHECK(has(processor, "--dtype float32"));
    CHECK_FALSE(has(processor, "--gpus"));
    CHECK(has(docker_line(deployment(Engine::vllm, 0)), "vllm: has no image for cpu devices"));
    CHECK(has(docker_line(deployment(Engine::sglang, 1, DeviceKind::hip)), "name an image by --image"));
}

TEST_CASE("make_container: every flag is in the committed list of its engine, and so are its words") {
    // Flag -> the words that it takes; none: anything.
    std::map<std::string, std::map<std::string, std::set<std::string>>> known;
    std::ifstream file(SHARDWISE_SOURCE_DIR "/tests/golden/deploy/flags.txt");
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line[0] == '#') continue;
        CHECK_MESSAGE(line.find(" | ") != std::string::npos, line);
        std::istringstream words(line.substr(0, line.find(" | ")));
        std::string engine;
        std::string flag;
        words >> engine >> flag;
        auto& values = known[engine][flag];
        for (std::string value; words >> value;) values.insert(value);
    }
    std::set<std::string> emitted;
    auto const check = [&](DeployRequest const& request) {
        auto const container = make_container(request);
        if (!container) return;
        auto const engine = std::string(name_of(request.engine));
        auto words = container->arguments;
        words.insert(words.end(), container->node_arguments.begin(), container->node_arguments.end());
        words.insert(words.end(), container->worker_arguments.begin(), container->worker_arguments.end());
        bool const is_module = request.engine == Engine::sglang;
        for (std::size_t i = is_module ? 2 : 0; i < words.size(); ++i) {
            if (words[i][0] != '-') continue;
            auto const found = known[engine].find(words[i]);
            REQUIRE_MESSAGE(found != known[engine].end(), words[i]);
            emitted.insert(engine + " " + words[i]);
            bool const is_fixed = !found->second.empty() && words[i] != "-ngl";
            if (is_fixed) CHECK_MESSAGE(found->second.count(words[i + 1]) == 1, (words[i] + " " + words[i + 1]));
        }
    };
    for (auto const engine : {Engine::vllm, Engine::sglang, Engine::llama_server, Engine::tgi, Engine::tei}) {
        for (std::int32_t const count : {0, 1, 2}) {
            for (auto const* const dtype : {"", "float16", "bfloat16", "float32"}) {
                auto request = deployment(engine, count);
                request.image = "any";
                request.dtype = dtype;
                check(request);
                for (auto const* const family : {"qwen3", "mistral", "gemma3"}) {
                    request.config.model_type = family;
                    check(request);
                }
                request.place = ModelPlace::file;
                request.model = "/a.gguf";
                check(request);
            }
            for (auto const* const word : {"awq", "gptq", "fp8", "int8", "nf4", "fp4", "Q8_0"}) {
                auto request = deployment(engine, count);
                request.image = "any";
                request.quant = *parse_quant_scheme(word);
                check(request);
            }
            for (auto const* const word : {"eetq", "marlin", "exl2"}) {
                auto request = deployment(Engine::tgi, 1);
                request.engine_quant = word;
                check(request);
            }
        }
        auto nodes = deployment(engine, 2);
        nodes.devices[1].node = 1;
        check(nodes);
    }
    // The list holds nothing that is never emitted.
    for (auto const& flags : known) {
        for (auto const& flag : flags.second) {
            auto const listed = flags.first + " " + flag.first;
            CHECK_MESSAGE(emitted.count(listed) == 1, listed);
        }
    }
}

TEST_CASE("make_container: refuses what the engine could not do, and takes the smallest change") {
    auto const refused = [](DeployRequest const& request, std::string_view reason) {
        auto const container = make_container(request);
        REQUIRE_FALSE(container.has_value());
        CHECK_MESSAGE(has(container.error().message(), reason), container.error().message());
        return container.error().code();
    };
    auto const taken = [](DeployRequest const& request) { return make_container(request).has_value(); };

    auto request = deployment(Engine::tei, 2);
    CHECK(refused(request, "tei runs on one device") == ErrorCode::invalid_argument);
    request = deployment(Engine::tei);
    CHECK(taken(request));
    request.config.model_type = "llama";
    refused(request, "of the family llama, which tei does not serve");

    request = deployment(Engine::vllm, 3);
    refused(request, "32 heads are not divisible by tp 3; name as many devices as one of the legal tensor-parallel "
                     "degrees: 1, 2, 4, 8, 16, 32");
    CHECK(taken(deployment(Engine::vllm, 4)));

    request = deployment(Engine::tgi);
    request.quant = QuantScheme::awq();
    CHECK(taken(request));
    request.dtype = "float16";
    refused(request, "--dtype excludes --quantize");
    request = deployment(Engine::tgi, 2);
    request.engine_quant = "exl2";
    refused(request, "tgi runs it on one shard");
    request.engine_quant = "eetq";
    CHECK(has(docker_line(request), "--quantize eetq"));

    request = deployment(Engine::vllm);
    request.quant = *parse_quant_scheme("Q4_K_M");
    refused(request, "vllm has no such quantisation");
    request.quant = QuantScheme::fp8();
    CHECK(has(docker_line(request), "--quantization fp8"));
    request.stored_quant = request.quant;
    CHECK_FALSE(has(docker_line(request), "--quantization"));
    request.quant = std::nullopt;
    request.stored_quant = *parse_quant_scheme("nf4");
    refused(request, "quantised by bitsandbytes");
    request.engine = Engine::tgi;
    CHECK(taken(request));

    for (auto const engine : {Engine::vllm, Engine::tgi, Engine::tei}) {
        request = deployment(engine);
        request.place = ModelPlace::file;
        request.model = "/models/a.gguf";
        refused(request, "is a GGUF file");
    }
    request = deployment(Engine::llama_server);
    request.place = ModelPlace::folder;
    request.model = "/models/a";
    refused(request, "is no GGUF file");
    request.engine = Engine::vllm;
    CHECK(has(docker_line(request), "--volume /models/a:/model:ro"));

    request = deployment(Engine::vllm);
    request.devices[0].architecture = "sm_70";
    refused(request, "has compute capability 7.0, and vllm needs 7.5 or later");
    request.devices[0].architecture = "sm_75";
    CHECK(taken(request));

    request = deployment(Engine::vllm);
    // 0.2501 of 80 GiB.
    request.memory.free = Bytes{20LL << 30U};
    CHECK(refused(request, "20.01 GiB") == ErrorCode::out_of_memory);
    request.memory.free = Bytes{21LL << 30U};
    CHECK(taken(request));
}

TEST_CASE("make_container: TEI's image is the one of the device's compute capability") {
    auto request = deployment(Engine::tei);
    for (auto const& row :
         {std::pair{"sm_75", ":turing-1.9"}, std::pair{"sm_86", ":86-1.9"}, std::pair{"sm_89", ":89-1.9"},
          std::pair{"sm_90", ":hopper-1.9"}, std::pair{"sm_100", ":100-1.9"}, std::pair{"sm_120", ":120-1.9"},
          std::pair{"sm_80", ":cuda-1.9"}, std::pair{"", ":cuda-1.9"}}) {
        request.devices[0].architecture = row.first;
        CHECK_MESSAGE(has(docker_line(request), row.second), row.first);
    }
    request.image = "mine:1";
    CHECK(has(docker_line(request), " mine:1 --model-id"));
}

TEST_CASE("make_container: TEI's element types and images are held to its sources") {
    // backends/candle/src/lib.rs and compute_cap.rs of TEI v1.9.0.
    auto request = deployment(Engine::tei);
    request.config.model_type = "gemma3_text";
    CHECK(has(docker_line(request), "--dtype float32"));
    request.dtype = "float16";
    CHECK(has(docker_line(request), "tei runs gemma3_text here in float32 only"));
    for (auto const* const family : {"mistral", "qwen2"}) {
        request = deployment(Engine::tei);
        request.config.model_type = family;
        CHECK(has(docker_line(request), "--dtype float16 --pooling last-token"));
        request.dtype = "float32";
        CHECK(has(docker_line(request), "in float16 only"));
        request = deployment(Engine::tei, 0);
        request.config.model_type = family;
        CHECK(has(docker_line(request), "on which tei has no kernels"));
    }
    for (auto const& [device, image] :
         {std::pair{75, 75}, {80, 80}, {86, 80}, {89, 80}, {86, 86}, {89, 86}, {89, 89}, {90, 90}})
        CHECK(is_tei_capability(device, image));
    for (auto const& [device, image] :
         {std::pair{80, 75}, {75, 80}, {90, 80}, {80, 86}, {86, 89}, {90, 89}, {89, 90}, {120, 100}})
        CHECK_FALSE(is_tei_capability(device, image));
    for (auto const& row : engine_images) {
        if (row.engine == Engine::tei && row.kind == DeviceKind::cuda) CHECK(tei_image_capability(row.image) == row.capability);
    }
    CHECK(tei_image_capability("ghcr.io/huggingface/text-embeddings-inference:1.9") == 80);
    CHECK(tei_image_capability("mine:86-1.9") == 0);
}

TEST_CASE("memory_fraction: the share holds the bytes and is the smallest ten-thousandth that does") {
    for (std::int64_t const device : {85899345920LL, 25757220864LL, 42949672961LL}) {
        for (std::int64_t part = 1; part < device; part += device / 37) {
            auto const steps = detail::steps_for(Bytes{part}, Bytes{device});
            CHECK(static_cast<double>(steps) / 10000.0 * static_cast<double>(device) >= static_cast<double>(part));
            CHECK((steps - 2) * (device / 10000) < part);
        }
    }
    CHECK(detail::fraction_text(8100) == "0.81");
    CHECK(detail::fraction_text(7) == "0.0007");
    CHECK(detail::fraction_text(10001) == "1.0");
}
