// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// accelerate's own test model: linear1 64 B, batchnorm 72 B, linear2 100 B (facts/placement.md).
constexpr std::string_view three = R"({"class":"ModelForTest","params":[],"buffers":[],"children":[
 {"name":"linear1","class":"Linear","params":[{"name":"weight","dtype":"float32","shape":[4,3]},{"name":"bias","dtype":"float32","shape":[4]}],"buffers":[],"children":[]},
 {"name":"batchnorm","class":"BatchNorm1d","params":[{"name":"weight","dtype":"float32","shape":[4]},{"name":"bias","dtype":"float32","shape":[4]}],
  "buffers":[{"name":"running_mean","dtype":"float32","shape":[4]},{"name":"running_var","dtype":"float32","shape":[4]},{"name":"num_batches_tracked","dtype":"int64","shape":[]}],"children":[]},
 {"name":"linear2","class":"Linear","params":[{"name":"weight","dtype":"float32","shape":[5,4]},{"name":"bias","dtype":"float32","shape":[5]}],"buffers":[],"children":[]}]})";

}  // namespace

TEST_CASE("map: Llama-3-70B on four A100-40GB fits, with a proof") {
    auto const ran =
        run({"map", "llama-3-70b", "--devices", "4xA100-40GB", "--context", "8192", "--strategy", "optimal", "--json"});
    CHECK(ran.status == 0);
    Answer const answer(ran.out);
    CHECK(answer.text("schema") == "shardwise.map/1");
    CHECK(answer.size("device_map") == 83);
    CHECK(answer.integer("device_map", "model.layers.19") == 1);
    constexpr auto usable = 39513699123LL;  // 0.92 * 40 GiB
    CHECK(answer.integer("devices", std::size_t{1}, "capacity") == usable);
    CHECK(answer.integer("devices", std::size_t{1}, "total") == 40LL << 30U);
    CHECK(answer.text("certificate", "objective") == "load");
    CHECK(answer.real("certificate", "value") == answer.real("certificate", "lower_bound"));
    CHECK(answer.real("certificate", "value") ==
          doctest::Approx(static_cast<double>(answer.integer("devices", std::size_t{1}, "used")) /
                          static_cast<double>(usable)));
}

TEST_CASE("map: what does not fit exits 3, without a map, with a shortfall and fixes") {
    auto const ran = run({"map", "llama-3-70b", "--devices", "3xA100-40GB", "--context", "8192", "--json"});
    CHECK(ran.status == 3);
    Answer const answer(ran.out);
    CHECK(answer.is_null("device_map"));
    CHECK(answer.integer("shortfall", "bytes") > 0);
    CHECK(answer.size("fix") >= 3);
    CHECK(run({"map", "llama-3-70b", "--devices", "3xA100-40GB+disk", "--context", "8192"}).status == 0);
}

TEST_CASE("map: accelerate's dialect gives its own unit case") {
    TemporaryFolder const folder;
    auto const tree = folder.write("tree.json", three);
    auto const ran = run({"map", "--tree", tree, "--max-memory", R"({"0":200,"1":200})", "--strategy", "sequential",
                          "--dialect", "accelerate", "--json"});
    CHECK(ran.status == 0);
    CHECK(map_text(Answer(ran.out)) == "linear1=0 batchnorm=1 linear2=1");
}

TEST_CASE("map: transformers is the newest rule, transformers-5.0 the older one") {
    TemporaryFolder const folder;
    std::string blocks;
    for (int i = 0; i < 8; ++i) {
        blocks += std::string(i == 0 ? "" : ",") + R"({"name":")" + std::to_string(i) +
                  R"(","class":"Block","params":[{"name":"w","dtype":"F32","shape":[32768]}]})";
    }
    auto const wide = R"(","class":"Wide","params":[{"name":"w","dtype":"F32","shape":[262144]}]})";
    auto const tree = folder.write("tree.json", R"({"class":"M","children":[{"name":"embed)" + std::string(wide) +
                                                    R"(,{"name":"layers","class":"List","children":[)" + blocks +
                                                    R"(]},{"name":"head)" + wide + "]}");
    auto const ask = [&](char const* dialect) {
        return Answer(run({"map", "--tree", tree, "--dialect", dialect, "--strategy", "balanced", "--no-split", "Block",
                           "--max-memory", R"({"0":2200000,"1":2200000,"2":2200000,"3":2200000,"cpu":"10GiB"})",
                           "--json"})
                          .out);
    };
    // By transformers 5.23 itself; its get_balanced_memory: 3 MiB / 4 + 1.25 MiB.
    auto const newest = ask("transformers");
    CHECK(map_text(newest) == "embed=0 layers=1 head=1");
    CHECK(newest.integer("devices", std::size_t{0}, "budget") == 2097152);
    CHECK(newest.integer("devices", std::size_t{0}, "capacity") == 2200000);
    CHECK(newest.integer("devices", std::size_t{3}, "budget") == 2200000);
    auto const old = ask("transformers-5.0");
    // By transformers 5.0.0 itself: 3 MiB / 4 + int(1.25 * the mean of ten leaves), which holds no embedding beside a block.
    CHECK(map_text(old) == "embed=1 layers=2 head=3");
    CHECK(old.integer("devices", std::size_t{0}, "budget") == 1179647);
}

TEST_CASE("map: a tree has nothing but its tensors, and budgets are used as given") {
    TemporaryFolder const folder;
    auto const tree = folder.write("tree.json", three);
    auto const ran =
        run({"map", "--tree", tree, "--max-memory", R"({"0":136,"1":100})", "--strategy", "optimal", "--json"});
    CHECK(ran.status == 0);
    Answer const answer(ran.out);
    CHECK(map_text(answer) == "linear1=0 batchnorm=0 linear2=1");
    CHECK(answer.integer("devices", std::size_t{0}, "used") == 136);
    CHECK(answer.real("certificate", "value") == 1.0);
    auto const tight =
        run({"map", "--tree", tree, "--max-memory", R"({"0":135,"1":100})", "--strategy", "optimal", "--json"});
    CHECK(tight.status == 3);
    CHECK(Answer(tight.out).integer("shortfall", "bytes") == 1);
}

TEST_CASE("map: the longest context fits, one token more does not") {
    auto const ran = run({"map", "llama-3-8b", "--devices", "1xRTX4090", "--max", "context", "--json"});
    CHECK(ran.status == 0);
    auto const longest = Answer(ran.out).integer("answer");
    CHECK(longest > 4096);
    CHECK(run({"map", "llama-3-8b", "--devices", "1xRTX4090", "--context", std::to_string(longest)}).status == 0);
    CHECK(run({"map", "llama-3-8b", "--devices", "1xRTX4090", "--context", std::to_string(longest + 1)}).status == 3);
}

TEST_CASE("map: --utilization scales presets and leaves limits alone; the dialects take all unless it is given") {
    auto const capacity = [](std::vector<std::string> words) {
        words.insert(words.begin(), {"map", "llama-3-8b", "--json"});
        auto const ran = run(words);
        CAPTURE(ran.err);
        CHECK(ran.status == 0);
        return Answer(ran.out).integer("devices", std::size_t{0}, "capacity");
    };
    constexpr auto whole = 40LL << 30U;
    CHECK(capacity({"--devices", "1xA100-40GB"}) == 39513699123);
    CHECK(capacity({"--devices", "1xA100-40GB", "--utilization", "0.5"}) == whole / 2);
    CHECK(capacity({"--devices", "1xA100-40GB", "--utilization", "1"}) == whole);
    CHECK(capacity({"--devices", "1xA100-40GB:40GiB"}) == whole);
    CHECK(capacity({"--devices", "1xgpu:40GiB"}) == whole);
    CHECK(capacity({"--max-memory", R"({"0":"40GiB"})", "--utilization", "0.5"}) == whole);
    CHECK(capacity({"--devices", "1xA100-40GB", "--dialect", "accelerate"}) == whole);
    CHECK(capacity({"--devices", "1xA100-40GB", "--dialect", "transformers"}) == whole);
    CHECK(capacity({"--devices", "1xA100-40GB", "--dialect", "accelerate", "--utilization", "0.5"}) == whole / 2);
    auto const cpu = run({"map", "llama-3-8b", "--devices", "1xT4+cpu:64GiB", "--json"});
    CHECK(Answer(cpu.out).integer("devices", std::size_t{1}, "capacity") == 64LL << 30U);
    CHECK(run({"map", "llama-3-8b", "--devices", "1xL4"}).out.find("; utilization 0.92\n") != std::string::npos);
    CHECK(run({"map", "llama-3-8b", "--devices", "1xgpu:40GiB"}).out.find("utilization") == std::string::npos);
    for (auto const* wrong : {"0", "-1", "1.01", "nan", "inf", "92%", ""}) {
        auto const ran = run({"map", "llama-3-8b", "--devices", "1xL4", "--utilization", wrong});
        CHECK(ran.status == 2);
        CHECK(ran.err.find("--utilization") != std::string::npos);
    }
}

TEST_CASE("map: a context of a million tokens is prefilled in chunks; whole prompts need their activations") {
    std::vector<std::string> words{"map", "qwen2.5-7b", "--devices", "4xA100-80GB", "--context", "1000000"};
    CHECK(run(words).status == 0);
    words.insert(words.end(), {"--prefill-chunk", "none"});
    CHECK(run(words).status == 3);
    for (auto const* wrong : {"0", "-1", "x", ""})
        CHECK(run({"map", "llama-3-8b", "--devices", "1xL4", "--prefill-chunk", wrong}).status == 2);
}

TEST_CASE("map: --kv-dtype, --sliding-window and --mla change the cache as in estimate") {
    auto const cache = [](std::string const& model, std::vector<std::string> const& flags) {
        std::vector<std::string> words{"map", model, "--devices", "8xH200-141GB", "--context", "32768", "--json"};
        words.insert(words.end(), flags.begin(), flags.end());
        auto const ran = run(words);
        CHECK(ran.status == 0);
        Answer const map(ran.out);
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < map.size("devices"); ++i) sum += map.integer("devices", i, "kv_cache");
        words = {"estimate", model, "--context", "32768", "--json"};
        words.insert(words.end(), flags.begin(), flags.end());
        CHECK(sum == Answer(run(words).out).integer("bytes", "kv_cache"));
        return sum;
    };
    CHECK(2 * cache("llama-3-8b", {"--kv-dtype", "fp8"}) == cache("llama-3-8b", {}));
    CHECK(cache("gemma-2-27b", {"--sliding-window", "full"}) > cache("gemma-2-27b", {}));
    CHECK(cache("deepseek-v2-lite", {"--mla", "full"}) > cache("deepseek-v2-lite", {}));
}

TEST_CASE("map: the mildest quantisation is one that --quant takes") {
    for (auto const* devices : {"1xA100-80GB", "1xRTX4090", "1xT4"}) {
        auto const ran = run({"map", "qwen3-14b", "--devices", devices, "--max", "quant", "--json"});
        CAPTURE(ran.out);
        REQUIRE(ran.status == 0);
        auto const word = Answer(ran.out).text("answer");
        CHECK(run({"map", "qwen3-14b", "--devices", devices, "--quant", word}).status == 0);
    }
}

TEST_CASE("map: a custom map is completed and checked") {
    TemporaryFolder const folder;
    auto const tree = folder.write("tree.json", three);
    auto const with = [&](std::string_view map) {
        return run({"map", "--tree", tree, "--max-memory", R"({"0":500,"1":500})", "--strategy", "custom", "--custom",
                    folder.write("map.json", map), "--json"});
    };
    CHECK(map_text(Answer(with(R"({"linear1":0,"":"cuda:1"})").out)) == "linear1=0 batchnorm=1 linear2=1");
    auto const uncovered = with(R"({"linear1":0})");
    CHECK(uncovered.status == 1);
    CHECK(uncovered.says("batchnorm"));
    auto const unknown = with(R"({"linear":0,"":1})");
    CHECK(unknown.status == 0);
    CHECK(unknown.says("did you mean 'linear1'?"));
}
