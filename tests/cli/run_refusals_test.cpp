// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "fake_machine.hpp"
#include "launched_ranks.hpp"
#include "program.hpp"
#include "small_llama.hpp"

#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

TEST_CASE("run: what cannot be run is refused by name, with the right status") {
    SmallLlama const model;
    auto const status = [&](std::vector<std::string> arguments, std::string const& text) {
        auto const ran = run(arguments);
        CHECK_MESSAGE(ran.says(text), ran.err);
        return ran.status;
    };
    auto const& path = model.folder.path();
    CHECK(status({"run", path}, "--prompt-ids") == 2);
    CHECK(status({"run", "--prompt", "hello"}, "MODEL: was not given") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--top-p", "2"}, "from 0 to 1") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--logits", "/nowhere/at/all"}, "cannot be written to") == 1);
    CHECK(status({"run", path, "--prompt-ids", "1", "--logits", ""}, "name the file") == 1);
    // 3 and 63 more, of which the last needs no position, are more than 64.
    CHECK(status({"run", path, "--prompt-ids", "1,2,3", "--max-new-tokens", "63"}, "use at most 62") == 1);
    CHECK(run({"run", path, "--prompt-ids", "1,2,3", "--max-new-tokens", "62"}).status == 0);
    CHECK(status({"run", path, "--prompt-ids", "1,x"}, "is not a whole number") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--prompt-ids=2"}, "--prompt-ids: was given more than once") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--temperature", "hot"}, "--temperature") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--tp", "0"}, "--tp") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--dtype", "fp8"}, "use fp32, bf16 or fp16") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--dtype", "bf17"}, "did you mean bf16?") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--quant", "q4_k_m"}, "Q8_0") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--product-activations", "int4"}, "use one of full, int8, bf16") ==
          2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--product-activations", "int8"}, "would change nothing") == 1);
    CHECK(status({"run", path, "--prompt-ids", "1", "--dtype", "fp32", "--product-activations", "bf16"},
                 "no weight is held in bf16") == 1);
    CHECK(status({"run", path, "--prompt-ids", "1", "--quant", "nf4"}, "whole blocks") == 1);
    CHECK(status({"run", "llama-3-8b", "--prompt-ids", "1"}, "there are no weights to run") == 1);
    CHECK(status({"run", path + "/config.json", "--prompt-ids", "1"}, "has no weights to run") == 1);
    CHECK(status({"run", path, "--prompt-ids", "61"}, "not in the vocabulary") == 1);
    CHECK(status({"run", path, "--prompt-ids", "1", "--tp", "5", "--max-new-tokens", "2"}, "query heads") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--tp", "5", "--ranks", "processes"}, "query heads") == 2);
    CHECK(status({"estimate", path, "--tp", "5"}, "query heads") == 2);
    for (auto const* ranks : {"threads", "processes"})
        CHECK(status({"run", path, "--prompt-ids", "1", "--pp", "3", "--ranks", ranks},
                     "--pp: is more than the model has layers") == 2);
    for (std::string const devices : {"cuda:0", "hip:1,hip:0"}) {
        auto const option = devices.front() == 'c' ? "-DSHARDWISE_CUDA=ON" : "-DSHARDWISE_HIP=ON";
        CHECK(status({"run", path, "--prompt-ids", "1", "--devices", devices}, option) == 4);
    }
    CHECK(status({"run", path, "--prompt-ids", "1", "--devices", "cuda:0,hip:0"}, "compute on one vendor's") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--devices", "cuda:1,cuda:1"}, "is named before") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--devices", "cuda:x"}, "has no number of a device") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--activations", "fp8"}, "use one of fp32, bf16, fp16") == 2);
    CHECK(status({"embed", path, "--text", "word", "--activations", "half"}, "use one of fp32, bf16, fp16") == 2);
    for (std::string const activations : {"bf16", "fp16"}) {
        CAPTURE(activations);
        auto const name = "--activations: " + activations;
        CHECK(status({"run", path, "--prompt-ids", "1", "--activations", activations}, name + ": is for devices") == 1);
        CHECK(status({"embed", path, "--text", "word", "--activations", activations}, name + ": is for devices") == 1);
        CHECK(status({"run", path, "--prompt-ids", "1", "--activations", activations, "--devices", "cuda:0"},
                     "-DSHARDWISE_CUDA=ON") == 4);
    }
    CHECK(run({"run", path, "--prompt-ids", "1", "--max-new-tokens", "1", "--activations", "fp32"}).status == 0);
    CHECK(status({"run", path, "--prompt-ids", "1", "--ep", "2"}, "--ep: splits experts, and the model has none") == 2);
    CHECK(status({"estimate", path, "--pp", "3"}, "--pp: is more than the model has layers") == 2);
    CHECK(status({"plan", path, "--devices", "4xL4", "--pp", "3"}, "--pp: is more than the model has layers") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--temperature", "1e309"}, "is out of range") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--temperature", "-1"}, "is out of range") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--temperature", "nan"}, "--temperature") == 2);
    for (auto const* hot : {"1e308", "1e38", "1e7", "1e-320"})
        CHECK(run({"run", path, "--prompt-ids", "1", "--temperature", hot, "--max-new-tokens", "1"}).status == 0);
}

TEST_CASE("run, embed: --calibration is refused where nothing adds up by it; run warns of sums that it lacks") {
    SmallLlama const model;
    auto const file =
        model.folder.write("machine.json", R"({"schema":"shardwise.hardware/1","devices":[{"preset":"T4"}],
        "all_reduce":[{"ranks":2,"devices":2,"bytes":1024,"one_shot":1e-6,"two_shot":2e-6}]})");
    auto const run_with = [&](std::vector<std::string> const& more) {
        std::vector<std::string> words{"run", model.folder.path(), "--prompt-ids", "1", "--calibration", file};
        words.insert(words.end(), more.begin(), more.end());
        return run(words);
    };
    auto const map = model.folder.write("map.json", R"({"":0,"model.layers.1":1,"model.norm":1,"lm_head":1})");
    std::string const two = "cuda:0,cuda:1";
    struct Case {
        std::vector<std::string> more;
        std::string text;
    };
    for (auto const& [more, text] :
         {Case{{}, "this run computes on the processor"}, Case{{"--devices", "cuda:0"}, "--tp 1"},
          Case{{"--devices", two, "--tp", "1"}, "--tp 1"}, Case{{"--devices", two, "--pp", "2"}, "--tp 1"},
          Case{{"--devices", two, "--map", map}, "--tp 1"},
          Case{{"--devices", two, "--comm", "staged"}, "--comm staged"},
          Case{{"--devices", two, "--comm", "nccl"}, "--comm nccl"},
          Case{{"--devices", "cuda:0", "--tp", "2", "--ranks", "processes"}, "processes that share a device"},
          Case{{"--devices", "hip:0,hip:1"}, "--comm peers"}}) {
        auto const ran = run_with(more);
        CHECK(ran.status == 2);
        CHECK_MESSAGE(ran.says("--calibration"), ran.err);
        CHECK_MESSAGE(ran.says(text), ran.err);
    }
    for (auto const& [more, text] :
         {Case{{}, "this run computes on the processor"}, Case{{"--devices", "cuda:0"}, "--tp 1"},
          Case{{"--devices", two, "--comm", "staged"}, "--comm staged"},
          Case{{"--devices", "hip:0,hip:1"}, "--comm peers"}}) {
        std::vector<std::string> words{"embed", model.folder.path(), "--text", "word", "--calibration", file};
        words.insert(words.end(), more.begin(), more.end());
        auto const embedded = run(words);
        CHECK(embedded.status == 2);
        CHECK_MESSAGE(embedded.says("--calibration"), embedded.err);
        CHECK_MESSAGE(embedded.says(text), embedded.err);
    }
    // They go on until there is no device.
    auto const lacks = [&](std::vector<std::string> const& more, std::string const& text) {
        auto const ran = run_with(more);
        CHECK(ran.status == 4);
        CHECK_MESSAGE(ran.says("has no sums over") == !text.empty(), ran.err);
        CHECK_MESSAGE(ran.says(text), ran.err);
    };
    lacks({"--devices", two}, "");
    lacks({"--devices", "cuda:0", "--tp", "2"}, "has no sums over 2 ranks on 1 device:");
    lacks({"--devices", "cuda:0,cuda:1,cuda:2,cuda:3"}, "has no sums over 4 ranks on 4 devices:");
    lacks({"--devices", "cuda:0,cuda:1,cuda:2,cuda:3", "--pp", "2"}, "");
}

TEST_CASE(
    "run: a device map names devices of --devices, and layers on cpu are streamed to them or are stages of the "
    "processor") {
    SmallLlama const model;
    auto const run_mapped = [&](std::string const& map, std::vector<std::string> const& more) {
        std::vector<std::string> words{
            "run", model.folder.path(), "--prompt-ids", "1", "--map", model.folder.write("map.json", map)};
        words.insert(words.end(), more.begin(), more.end());
        return run(words);
    };
    auto const check = [&](std::string const& map, std::vector<std::string> const& more, int status,
                           std::string const& text) {
        auto const ran = run_mapped(map, more);
        CHECK(ran.status == status);
        CHECK_MESSAGE(ran.says(text), ran.err);
    };
    std::string const beside = R"({"":0,"model.layers.1":"cpu"})";
    std::string const no_device = "-DSHARDWISE_CUDA=ON";
    check(beside, {"--devices", "cuda:0"}, 4, no_device);
    check(beside, {"--devices", "cuda:0", "--pp", "1", "--offload", "stream"}, 4, no_device);
    check(beside, {"--devices", "cuda:0", "--pp", "2", "--offload", "compute"}, 4, no_device);
    check(beside, {"--devices", "cuda:0", "--pp", "1", "--offload", "compute"}, 2, "(got 1, expected 2)");
    check(R"({"":"cpu"})", {"--devices", "cuda:1"}, 4, no_device);
    check(R"({"":0,"model.layers.1":3,"model.norm":3,"lm_head":3})", {"--devices", "cuda:0,cuda:1"}, 2,
          "is no device of --devices");
    // No layer stays on a device.
    std::string const away = R"({"":1,"model.layers":"cpu"})";
    check(away, {"--devices", "cuda:0,cuda:1", "--pp", "1"}, 4, no_device);
    check(away, {"--devices", "cuda:0"}, 2, "1: is no device of --devices");
    check(away, {"--devices", "cuda:0", "--offload", "compute"}, 2, "1: is no device of --devices");
    // Devices that hold a stage each cut no layer.
    check(R"({"":0,"model.layers.1":4,"model.norm":4,"lm_head":4})",
          {"--devices", "cuda:0,cuda:1,cuda:2,cuda:3,cuda:4"}, 4, no_device);
    check(beside, {"--devices", "2xgpu:24GiB"}, 2, "--strategy would find");
    check(beside, {"--offload", "compute"}, 2, "beside devices");
    check(beside, {"--devices", "cuda:0", "--offload", "all"}, 2, "stream, compute");
}

TEST_CASE("run: what --strategy places on devices of this machine is computed there, by the numbers of their runtime") {
    SmallLlama const model;
    shardwise::testing::FakeMachine machine;
    std::string rows;
    for (int i = 0; i < 3; ++i) {
        auto const number = std::to_string(i);
        rows += "gpu name=\"NVIDIA GeForce RTX 4090\" uuid=GPU-4090000" + number + "-aaaa pci=00000000:0" + number +
                ":00.0 memory=25769803776 free=24696061952 capability=8.9 numa=0\n";
    }
    machine.nvidia(rows);
    machine.amd(
        "gpu name=\"AMD Instinct MI300X\" serial=0x1 pci=0000:13:00.0 memory=206141652992\n"
        "gpu name=\"AMD Instinct MI300X\" serial=0x2 pci=0000:83:00.0 memory=206141652992\n");
    auto const check = [&](std::vector<std::string> const& more, int status, std::vector<std::string> const& texts) {
        std::vector<std::string> words{"run", model.folder.path(), "--prompt-ids", "1", "--max-new-tokens", "1"};
        words.insert(words.end(), more.begin(), more.end());
        auto const ran = run(words, {{"SHARDWISE_NVML", machine.options().nvml_library},
                                     {"SHARDWISE_AMD_SMI", machine.options().amd_smi_libraries[0]},
                                     {"SHARDWISE_SYSTEM_ROOT", machine.options().root},
                                     {"SHARDWISE_LOG", "debug"}});
        CHECK(ran.status == status);
        for (auto const& text : texts) CHECK_MESSAGE(ran.says(text), ran.err);
    };
    std::string const no_device = "-DSHARDWISE_CUDA=ON";
    // The processor is no answer where devices are named.
    check({"--strategy", "balanced", "--devices", "cuda:2,cuda:1"}, 4,
          {no_device, "stage 0 computes on cuda:2", "stage 1 computes on cuda:1"});
    check({"--strategy", "sequential", "--devices", "cuda:1", "--pp", "1"}, 4,
          {no_device, "stage 0 computes on cuda:1"});
    check({"--strategy", "sequential", "--devices", "cuda:1", "--pp", "2"}, 2, {"(got 2, expected 1)"});
    // Of which device maps have others.
    check({"--strategy", "balanced", "--devices", "hip:1,hip:0"}, 4,
          {"-DSHARDWISE_HIP=ON", "stage 0 computes on hip:1", "stage 1 computes on hip:0"});
    for (auto const* devices : {"auto", "cuda:0,hip:0"})
        check({"--strategy", "balanced", "--devices", devices}, 2, {"compute on one vendor's"});
    for (auto const* devices : {"0,1", "0", "GPU-40900000"}) check({"--devices", devices}, 4, {no_device});
    check({"--strategy", "balanced", "--devices", "2,cuda:0", "--tp", "2"}, 4,
          {no_device, "stage 0 computes on cuda:2"});
    check({"--strategy", "auto", "--devices", "cuda:1+cpu:1GiB", "--offload", "compute"}, 4, {no_device});
    check({"--strategy", "auto", "--devices", "cuda:9"}, 4, {"cuda:9: is not a device"});
    check({"--strategy", "auto", "--devices", "cuda:0", "--no-graphs", "--comm", "staged"}, 4, {no_device});
    check({"--strategy", "auto", "--devices", "cpu:1GiB", "--offload", "compute"}, 2, {"beside devices"});
    // Memory of devices that are elsewhere is filled by stages of the processor.
    check({"--strategy", "balanced", "--devices", "2xgpu:8GiB"}, 0, {"computes on the host's cores"});
    check({"--devices", "cpu"}, 0, {"computes on the host's cores"});
    // Stages share the devices before layers are cut.
    check({"--devices", "cuda:0,cuda:1,cuda:2,cuda:3,cuda:4,cuda:5", "--pp", "2"}, 4, {no_device});
    check({"--devices", "cuda:0,cuda:1,cuda:2,cuda:3,cuda:4,cuda:5"}, 2, {"query heads"});
    // None of them is left idle.
    std::string const idle = "--devices: names 3 devices, which --pp times --ep, 2, does not divide";
    check({"--devices", "cuda:0,cuda:1,cuda:2", "--pp", "2"}, 2, {idle, "name 2 devices"});
    check({"--devices", "cuda:0,cuda:1,cuda:2", "--ep", "2"}, 2, {idle});
    check({"--devices", "cuda:0,cuda:1,cuda:2", "--pp", "2", "--tp", "1"}, 4, {no_device});
    check({"--devices", "cuda:0", "--pp", "2"}, 4, {no_device});
    // However the devices are named.
    for (std::string const devices : {"cuda:0", "0", "GPU-40900000", "cuda:0,cuda:1"}) {
        check({"--devices", devices + "+cpu:1GiB"}, 2, {"--devices: cpu:1GiB: ", "add --strategy auto"});
        check({"--devices", devices + "+disk"}, 2, {"--devices: disk: ", "add --strategy auto"});
        check({"--strategy", "auto", "--devices", devices + "+cpu:1GiB"}, 4, {no_device});
    }
    check({"--devices", "1xgpu:8GiB+cpu:1GiB"}, 0, {"computes on the host's cores"});
}

TEST_CASE("run: a placement counts caches and activations as ranks hold them, and warns of what detection guesses") {
    SmallLlama const model(R"("max_position_embeddings":16777216,"torch_dtype":"bfloat16")");
    shardwise::testing::FakeMachine machine;
    machine.nvidia(
        "gpu name=\"NVIDIA GeForce RTX 4090\" uuid=GPU-1111-aaaa pci=00000000:01:00.0 memory=2147483648 "
        "free=2147483648 capability=8.9 numa=0\n"
        "gpu name=\"NVIDIA GeForce RTX 3090\" uuid=GPU-2222-aaaa pci=00000000:02:00.0 memory=2147483648 "
        "free=2147483648 capability=8.6 numa=0\n");
    auto const run_placed = [&](std::vector<std::string> const& more, Variables variables = {}) {
        std::vector<std::string> words{"run", model.folder.path(), "--prompt-ids", "1", "--strategy", "auto"};
        words.insert(words.end(), more.begin(), more.end());
        variables.insert(variables.end(), {{"SHARDWISE_NVML", machine.options().nvml_library},
                                           {"SHARDWISE_AMD_SMI", machine.options().amd_smi_libraries[0]},
                                           {"SHARDWISE_SYSTEM_ROOT", machine.options().root}});
        return run(words, variables);
    };
    auto const on_one = [&](std::vector<std::string> more) {
        more.insert(more.end(), {"--devices", "cuda:0"});
        auto const ran = run_placed(more);
        CAPTURE(ran.err);
        CHECK(ran.says(ran.status == 4 ? "-DSHARDWISE_CUDA=ON" : "does not fit on cuda:0"));
        return ran.status;
    };
    // 48 numbers for each token.
    CHECK(on_one({"--max-new-tokens", "10000000", "--kv-dtype", "bf16"}) == 4);
    CHECK(on_one({"--max-new-tokens", "10000000"}) == 3);
    CHECK(on_one({"--max-new-tokens", "4000000"}) == 4);
    std::vector<std::string> const long_steps{"--max-new-tokens", "4000000", "--kv-dtype", "int8",
                                              "--prefill-chunk",  "4000000"};
    auto floats = long_steps;
    floats.insert(floats.end(), {"--activations", "fp32"});
    CHECK(on_one(floats) == 3);
    CHECK(on_one(long_steps) == 4);

    auto const guessed = run_placed({"--devices", "cuda:1,cuda:0", "--max-new-tokens", "1"});
    CHECK_MESSAGE(guessed.says("CUDA_DEVICE_ORDER=PCI_BUS_ID"), guessed.err);
    // A launcher's ranks, none of which was asked for by a degree.
    auto const other = run_placed({"--devices", "cuda:0", "--max-new-tokens", "1"}, torchrun(0, 3, "29555"));
    CHECK(other.status == 2);
    CHECK_MESSAGE(
        other.says("--strategy: places the model in another number of stages than torchrun started ranks for"),
        other.err);
}

TEST_CASE("run: a text that may pass into positions of other factors is warned of; a text is embedded as it is alone") {
    SmallLlama const model(R"("max_position_embeddings":64,"original_max_position_embeddings":8,"rope_scaling":)"
                           R"({"rope_type":"longrope","short_factor":[1,1.5,2],"long_factor":[1,4,9]})");
    model.add_tokenizer();
    auto const& path = model.folder.path();
    auto const warns = [&](std::string const& ids, std::string const& count) {
        auto const ran = run({"run", path, "--prompt-ids", ids, "--max-new-tokens", count, "--json"});
        CHECK_MESSAGE(ran.status == 0, ran.err);
        return ran.says("come to more than 8 tokens");
    };
    CHECK(warns("1,2,3", "6"));
    CHECK_FALSE(warns("1,2,3", "5"));
    CHECK_FALSE(warns("1,2,3,4,5,6,7,8,9", "5"));
    auto const vectors = [&](std::vector<std::string> const& texts) {
        std::vector<std::string> words{"embed", path, "--json"};
        for (auto const& text : texts) words.insert(words.end(), {"--text", text});
        auto const ran = run(words);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        Answer const answer(ran.out);
        std::vector<std::vector<double>> found(texts.size());
        for (std::size_t i = 0; i < texts.size(); ++i) {
            for (std::size_t k = 0; k < 24; ++k) found[i].push_back(answer.real("embeddings", i, k));
        }
        return found;
    };
    auto const all = vectors({"abc", "abcdefghijk", "bcd"});
    CHECK(all[0] == vectors({"abc"})[0]);
    CHECK(all[1] == vectors({"abcdefghijk"})[0]);
    CHECK(all[2] == vectors({"bcd"})[0]);
}

TEST_CASE("run: text needs a tokenizer, and one prompt") {
    SmallLlama const model;
    auto const& path = model.folder.path();
    auto const none = run({"run", path, "--prompt", "hello"});
    CHECK(none.status == 1);
    CHECK(none.says("tokenizer.json"));
    auto const two = run({"run", path, "--prompt", "hello", "--prompt-ids", "1"});
    CHECK(two.status == 2);
    CHECK(two.says("more than one way"));
    auto const chat = run({"run", path, "--prompt-ids", "1", "--chat"});
    CHECK(chat.status == 2);
    CHECK(chat.says("--chat"));
    auto const stop = run({"run", path, "--prompt-ids", "1", "--stop", "."});
    CHECK(stop.status == 1);
    CHECK(stop.says("--stop"));
}

TEST_CASE("run: an empty prompt begins with the token that begins a sequence, where the model has one") {
    auto const prompt_of = [](SmallLlama const& model) {
        model.add_tokenizer();
        auto const ran = run({"run", model.folder.path(), "--prompt", "", "--max-new-tokens", "1", "--json"});
        if (ran.status != 0) return std::string("refused: ") + ran.err;
        Answer const answer(ran.out);
        std::string ids;
        for (std::size_t i = 0; i < answer.size("prompt_ids"); ++i)
            ids += std::to_string(answer.integer("prompt_ids", i)) + " ";
        return ids;
    };
    CHECK(prompt_of(SmallLlama(R"("max_position_embeddings":64,"bos_token_id":7)")) == "7 ");
    CHECK(prompt_of(SmallLlama(R"("max_position_embeddings":64)")).find("refused: ") == 0);
    SmallLlama const generates(R"("max_position_embeddings":64,"bos_token_id":7)");
    (void)generates.folder.write("generation_config.json", R"({"bos_token_id":9})");
    CHECK(prompt_of(generates) == "9 ");
}

TEST_CASE("run: says how it ended") {
    auto const finish = [](SmallLlama const& model, std::vector<std::string> const& more) {
        std::vector<std::string> words{"run",   model.folder.path(), "--prompt-ids", "5,9,2", "--max-new-tokens", "4",
                                       "--json"};
        words.insert(words.end(), more.begin(), more.end());
        auto const ran = run(words);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        return Answer(ran.out);
    };
    SmallLlama const endless(R"("max_position_embeddings":64)");
    endless.add_tokenizer();
    auto const whole = finish(endless, {});
    CHECK(whole.text("finish") == "length");
    REQUIRE(whole.size("token_ids") == 4);
    // The second token as the end, then its text.
    SmallLlama const ends(R"("max_position_embeddings":64,"eos_token_id":)" +
                          std::to_string(whole.integer("token_ids", std::size_t{1})));
    CHECK(finish(ends, {}).text("finish") == "eos");
    CHECK(finish(endless, {"--stop", whole.text("text").substr(1, 1)}).text("finish") == "stop");
}
