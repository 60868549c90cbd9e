// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "fake_machine.hpp"
#include "program.hpp"

#include <string>
#include <utility>
#include <vector>

using namespace shardwise::tests;
using shardwise::testing::FakeMachine;
namespace machines = shardwise::testing::machines;

namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// The program on a machine that is made up; the variables that hide devices as given.
Ran run_on(FakeMachine& machine, std::vector<std::string> const& words, Environment environment = {}) {
    for (auto const* variable :
         {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
        ::unsetenv(variable);
    }
    environment.emplace_back("SHARDWISE_NVML", machine.options().nvml_library);
    environment.emplace_back("SHARDWISE_AMD_SMI", machine.options().amd_smi_libraries[0]);
    environment.emplace_back("SHARDWISE_SYSTEM_ROOT", machine.options().root);
    return run(words, environment);
}

/// Four GPUs of 24 GiB, the last almost full.
std::string four_gpus() {
    std::string rows;
    for (int i = 0; i < 4; ++i) {
        auto const number = std::to_string(i);
        rows += "gpu name=\"NVIDIA GeForce RTX 4090\" uuid=GPU-4090000" + number + "-aaaa pci=00000000:0" + number +
                ":00.0 memory=25769803776 free=" + (i == 3 ? "1073741824" : "24696061952") + " capability=8.9 numa=0\n";
    }
    return rows + "ancestor first=0 second=1 level=10\n";
}

}  // namespace

TEST_CASE("detect --json: devices, topology, recommendation") {
    FakeMachine machine;
    machine.nvidia(four_gpus());
    auto const ran = run_on(machine, {"detect", "--json"});
    CHECK(ran.status == 0);
    Answer const answer(ran.out);
    REQUIRE(answer.is_valid());
    CHECK(answer.text("schema") == "shardwise.detect/1");
    REQUIRE(answer.size("devices") == 5);
    CHECK(answer.text("devices", 1U, "id") == "cuda:1");
    CHECK(answer.text("devices", 1U, "kind") == "cuda");
    CHECK(answer.text("devices", 1U, "name") == "NVIDIA GeForce RTX 4090");
    CHECK(answer.integer("devices", 1U, "memory_total") == 25769803776);
    CHECK(answer.integer("devices", 1U, "memory_free") == 24696061952);
    CHECK(answer.text("devices", 1U, "uuid") == "GPU-40900001-aaaa");
    CHECK(answer.text("devices", 1U, "pci") == "00000000:01:00.0");
    CHECK(answer.at("devices", 1U, "available")->boolean() == true);
    CHECK(answer.is_null("devices", 1U, "reason"));
    CHECK(answer.text("devices", 4U, "id") == "cpu");
    CHECK(answer.is_null("devices", 4U, "uuid"));
    CHECK(answer.is_null("devices", 4U, "numa"));
    CHECK(answer.text("topology", "matrix", 0U, 1U) == "PIX");
    CHECK(answer.text("topology", "matrix", 2U, 2U) == "X");
    CHECK(answer.text("recommended") == "cuda:0");
    CHECK(answer.text("max_memory", "0") == "22609MiB");
}

TEST_CASE("detect: hidden devices, the matrix and the reasons are there for people too") {
    FakeMachine machine;
    machine.nvidia(four_gpus());
    auto const ran = run_on(machine, {"detect"}, {{"CUDA_VISIBLE_DEVICES", "1,0"}});
    CHECK(ran.status == 0);
    CHECK(ran.out.find("GPU-40900002-aaaa: hidden by CUDA_VISIBLE_DEVICES=1,0\n") != std::string::npos);
    CHECK(ran.out.find("PIX at most one PCIe bridge; ") != std::string::npos);
    CHECK(ran.out.find("recommended: cuda:0\n") != std::string::npos);
}

TEST_CASE("detect MODEL recommends the fewest devices that hold it, and prefers where asked") {
    FakeMachine machine;
    machine.nvidia(four_gpus());
    auto ran = run_on(machine, {"detect", "qwen3-14b", "--context", "4096", "--json"});
    CHECK(Answer(ran.out).size("recommendation", "devices") == 2);
    CHECK(Answer(ran.out).text("recommendation", "model") == "qwen3-14b");
    ran = run_on(machine, {"detect", "llama-3-8b", "--prefer", "cpu"});
    CHECK_MESSAGE(ran.out.find(": cuda:0\n") != std::string::npos, "the processor has 32 MiB");
    for (auto const* word : {"rocm", "ROCm", "HIP"}) {
        ran = run_on(machine, {"detect", "--prefer", word, "--json"});
        CHECK(ran.status == 0);
        CHECK(Answer(ran.out).text("recommendation", "reason").find("no hip device") != std::string::npos);
    }
    ran = run_on(machine, {"detect", "--prefer", "nvidia"});
    CHECK(ran.status == 2);
}

TEST_CASE("detect --devices says which may be used and why not; exit 4 where one may not") {
    FakeMachine machine;
    machine.nvidia(four_gpus());
    auto ran = run_on(machine, {"detect", "--devices", "cuda:0,GPU-40900001", "--json"});
    CHECK(ran.status == 0);
    CHECK(Answer(ran.out).text("checked", 1U, "id") == "cuda:1");
    ran = run_on(machine, {"detect", "--devices", "cuda:0,GPU-40900001", "--json"}, {{"CUDA_VISIBLE_DEVICES", "0"}});
    CHECK(ran.status == 4);
    CHECK(Answer(ran.out).text("checked", 1U, "reason") == "hidden by CUDA_VISIBLE_DEVICES=0");
    CHECK(ran.err == "shardwise: GPU-40900001: hidden by CUDA_VISIBLE_DEVICES=0\n");
    ran = run_on(machine, {"detect", "--devices", "cuda:0,cuda:8"});
    CHECK(ran.status == 4);
    CHECK(ran.err.find("shardwise: cuda:8: is not a device") == 0);
    ran = run_on(machine, {"detect", "--devices", ""});
    CHECK(ran.status == 2);
    CHECK(ran.says("--devices: names no device"));
}

TEST_CASE("detect --out writes a description that map and plan take") {
    FakeMachine machine;
    machine.nvidia(four_gpus());
    auto const file = machine.folder() / "machine.json";
    CHECK(run_on(machine, {"detect", "--out", file}).status == 0);
    FakeMachine other;
    auto const ran = run_on(other, {"map", "llama-3-8b", "--devices", file, "--json"});
    CHECK(ran.status == 0);
    CHECK(Answer(ran.out).size("devices") == 5);
    CHECK(Answer(ran.out).text("devices", 0U, "name") == "NVIDIA GeForce RTX 4090");
    // On both ways `map` plans with what is free; of what is detected it leaves a share unless it is told otherwise.
    auto const direct =
        run_on(machine, {"map", "llama-3-8b", "--devices", "auto", "--utilization", "1", "--json"});
    REQUIRE(Answer(direct.out).size("devices") == 4);
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(Answer(ran.out).integer("devices", i, "capacity") == (i == 3 ? 1073741824 : 24696061952));
        for (auto const* number : {"id", "capacity", "used"})
            CHECK(Answer(ran.out).integer("devices", i, number) == Answer(direct.out).integer("devices", i, number));
    }
}

TEST_CASE("map plans with the free memory of a description, in every dialect") {
    TemporaryFolder const folder;
    auto const file = folder.write(
        "h.json",
        R"({"schema":"shardwise.hardware/1","devices":[{"preset":"H100-80GB","count":2,"memory_free":"10GiB"}]})");
    for (auto const* dialect : {"shardwise", "accelerate", "transformers"}) {
        CAPTURE(dialect);
        auto const ran = run({"map", "llama-3-8b", "--devices", file, "--dialect", dialect, "--json"});
        CHECK_MESSAGE(ran.status == 0, ran.err);
        CHECK(Answer(ran.out).integer("devices", 0U, "capacity") == std::int64_t{10} << 30);
        CHECK(Answer(ran.out).integer("devices", 0U, "used") <= std::int64_t{10} << 30);
        CHECK(Answer(ran.out).integer("devices", 1U, "used") > 0);
    }
    CHECK(run({"map", "llama-3-70b", "--devices", file}).status == 3);
    auto const more = run({"map", "llama-3-70b", "--devices", file, "--max", "devices", "--json"});
    CHECK_MESSAGE(Answer(more.out).size("devices") > 13, "130 GiB of weights on devices of 10 GiB");
}

TEST_CASE("A machine without drivers: detect lists the processor, auto means it") {
    FakeMachine machine;
    machine.put("/proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 50331648 kB\n");
    auto const ran = run_on(machine, {"detect", "--json"});
    CHECK(ran.status == 0);
    CHECK(Answer(ran.out).size("devices") == 1);
    CHECK(Answer(ran.out).text("recommended") == "cpu");
    for (auto const* words : {"auto", "auto+cpu", "cpu,auto"}) {
        CAPTURE(words);
        auto const mapped = run_on(machine, {"map", "llama-3-8b", "--devices", words, "--json"});
        CHECK(mapped.status == 0);
        Answer const answer(mapped.out);
        REQUIRE(answer.size("devices") == 1);
        CHECK(answer.text("devices", 0U, "id") == "cpu");
        CHECK_MESSAGE(answer.integer("devices", 0U, "capacity") == std::int64_t{48} << 30, "what is available");
    }
    for (auto const* words : {"auto+disk", "disk+auto", "auto+cpu+disk"}) {
        CAPTURE(words);
        Answer const answer(run_on(machine, {"map", "gpt2", "--devices", words, "--json"}).out);
        REQUIRE(answer.size("devices") == 2);
        CHECK(answer.text("devices", 0U, "id") == "cpu");
        CHECK(answer.integer("devices", 0U, "capacity") == std::int64_t{48} << 30);
        CHECK(answer.text("devices", 1U, "id") == "disk");
    }
    Answer const named(run_on(machine, {"map", "gpt2", "--devices", "auto+cpu:2GiB+disk", "--json"}).out);
    CHECK(named.size("devices") == 2);
    CHECK(named.integer("devices", 0U, "capacity") == std::int64_t{2} << 30);
    auto const none = run_on(machine, {"map", "llama-3-8b", "--devices", "cuda:0", "--json"});
    CHECK(none.status == 4);
    CHECK(Answer(none.out).text("error", "code") == "no_such_device");
}

TEST_CASE("map takes devices of this machine by every name, with a share of them and never more than is free") {
    FakeMachine machine;
    machine.nvidia(four_gpus());
    struct Case {
        std::string words;
        std::vector<std::int64_t> ids;
    };
    for (auto const& [words, ids] : std::vector<Case>{{"auto", {0, 1, 2, 3}},
                                                      {"cuda:0,cuda:1", {0, 1}},
                                                      {"cuda:2, cuda:1", {2, 1}},
                                                      {"cuda:2+cuda:1", {2, 1}},
                                                      {"1,2", {1, 2}},
                                                      {"GPU-40900002,00000000:01:00.0", {2, 1}},
                                                      {"cuda:1,auto", {1, 0, 2, 3}}}) {
        auto const& devices = words;
        CAPTURE(devices);
        auto const ran = run_on(machine, {"map", "llama-3-8b", "--devices", words, "--json"});
        CHECK(ran.status == 0);
        Answer const answer(ran.out);
        REQUIRE(answer.size("devices") == ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) {
            CHECK(answer.integer("devices", i, "id") == ids[i]);
            CHECK(answer.integer("devices", i, "capacity") == (ids[i] == 3 ? 1073741824 : 23708219473));
            CHECK(answer.integer("devices", i, "total") == 25769803776);
        }
    }
    auto const ran = run_on(machine, {"map", "llama-3-70b", "--devices", "auto+cpu:200GiB+disk", "--json"});
    CHECK(ran.status == 0);
    CHECK(Answer(ran.out).size("devices") == 6);
}

TEST_CASE("--devices with what does not exist is exit 4 with the reason; twice, or mixed with presets, it is refused") {
    FakeMachine machine;
    machine.nvidia(machines::mig);
    auto const message = [&](std::string const& words, int status, Environment const& environment = {}) {
        auto const ran = run_on(machine, {"map", "llama-3-8b", "--devices", words}, environment);
        CHECK(ran.status == status);
        return ran.err;
    };
    CHECK(message("cuda:7", 4).find("cuda:7: is not a device") != std::string::npos);
    CHECK(message("GPU-a0", 4).find("GPU-a0: is split by MIG: use its instances") != std::string::npos);
    CHECK(message("MIG-11", 4, {{"CUDA_VISIBLE_DEVICES", "GPU-a1"}}).find("hidden by CUDA_VISIBLE_DEVICES=GPU-a1") !=
          std::string::npos);
    CHECK(message("hip:0", 4).find("hip:0: is not a device") != std::string::npos);
    CHECK(message("cuda:0,cuda:0", 2).find("is named before") != std::string::npos);
    CHECK(message("cuda:0,2xA100-40GB", 4).find("2xA100-40GB: is not a device of this machine") != std::string::npos);
    CHECK(message("2xRTX4090,cpu:32GiB", 2).find("write 2xRTX4090+cpu:32GiB") != std::string::npos);
    CHECK(message("cuda:0,", 4).find("is not a device of this machine") != std::string::npos);
    CHECK(message("no-such-file.json", 1).find("no-such-file.json") != std::string::npos);
    machine.options().nvml_library = machine.folder() / "none";
    CHECK(message("auto", 3).find("cpu") == std::string::npos);
}

TEST_CASE("A broken driver is exit 1 and names the call, wherever devices are asked for") {
    FakeMachine machine;
    machine.nvidia(four_gpus() + "fail call=nvmlDeviceGetMemoryInfo device=2 status=15\n");
    for (auto const& words : std::vector<std::vector<std::string>>{
             {"detect", "--json"}, {"map", "llama-3-8b", "--devices", "auto", "--json"}}) {
        auto const ran = run_on(machine, words);
        CHECK(ran.status == 1);
        CHECK(Answer(ran.out).text("error", "code") == "backend_failure");
        CHECK(Answer(ran.out).text("error", "message").find("nvmlDeviceGetMemoryInfo") == 0);
    }
}

TEST_CASE("AMD's devices are hip:0 and follow ROCm's variables") {
    FakeMachine machine;
    machine.amd(
        "gpu name=\"AMD Instinct MI300X\" serial=0x1 pci=0000:03:00.0 memory=206141652992\n"
        "gpu name=\"AMD Instinct MI300X\" serial=0x2 pci=0000:83:00.0 memory=206141652992\n"
        "xgmi first=0 second=1 megabytes=64000\n");
    auto ran = run_on(machine, {"detect", "--json"}, {{"HIP_VISIBLE_DEVICES", "1"}});
    CHECK(Answer(ran.out).text("devices", 0U, "id") == "hip:0");
    CHECK(Answer(ran.out).text("devices", 0U, "uuid") == "GPU-0000000000000002");
    CHECK(Answer(ran.out).text("devices", 1U, "reason") == "hidden by HIP_VISIBLE_DEVICES=1");
    CHECK(Answer(ran.out).text("topology", "matrix", 0U, 1U) == "XGMI");
    ran = run_on(machine, {"map", "llama-3-70b", "--devices", "hip:0,hip:1", "--json"});
    CHECK(ran.status == 0);
}
