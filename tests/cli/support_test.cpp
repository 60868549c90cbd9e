// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

#include <filesystem>
#include <map>
#include <set>
#include <string>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// {name: level} of one back end.
[[nodiscard]] std::map<std::string, std::string> levels(Answer const& answer, char const* table, char const* backend) {
    std::map<std::string, std::string> found;
    for (std::size_t i = 0; i < answer.size(table); ++i) {
        found[answer.text(table, i, "name")] = answer.text(table, i, "backends", backend, "level");
        // What is not all there says why.
        bool const is_whole = answer.is_null(table, i, "backends", backend, "reason");
        auto const& level = found[answer.text(table, i, "name")];
        CHECK_MESSAGE(is_whole == (level == "runs" || (level == "library" && std::string(table) != "strategies")),
                      answer.text(table, i, "name"));
    }
    return found;
}

}  // namespace

TEST_CASE("support: says what runs where, and why the rest does not") {
    auto const ran = run({"support", "--json"});
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    Answer const answer(ran.out);
    CHECK(answer.text("schema") == "shardwise.support/1");
    REQUIRE(answer.size("backends") == 4);
    auto const cpu = levels(answer, "strategies", "cpu");
    CHECK(cpu.at("tensor parallel") == "runs");
    CHECK(cpu.at("pipeline parallel") == "runs");
    // What run refuses it does not run.
    auto const dealt = run({"run", "no-such-folder/model.gguf", "--prompt-ids", "1", "--ep", "2"});
    CHECK((cpu.at("expert parallel") == "runs") != dealt.says("experts cannot be split over ranks yet"));
    auto const metal = levels(answer, "strategies", "metal");
    CHECK(metal.at("tensor parallel") == "refused");
    CHECK(levels(answer, "strategies", "cuda").at("tensor parallel") == "runs");
    CHECK(levels(answer, "strategies", "cuda").at("expert parallel") == "runs");
    CHECK(levels(answer, "strategies", "cuda").at("run a model on one rank") == "runs");
    CHECK(levels(answer, "operations", "cuda").at("rms_norm") == "runs");
    CHECK(levels(answer, "operations", "cuda").at("softmax") == "library");
    CHECK(levels(answer, "operations", "cuda").at("residual_norm") == "runs");
    // The processor quantises what is loaded.
    CHECK(levels(answer, "operations", "cuda").at("quantize") == "library");
    CHECK(levels(answer, "operations", "cpu").at("quantize") == "runs");
    CHECK(levels(answer, "operations", "cuda") == levels(answer, "operations", "rocm"));
    CHECK(levels(answer, "operations", "cpu").at("attention") == "runs");
    CHECK(levels(answer, "operations", "metal").at("attention") == "none");
    // Models train on the host alone.
    CHECK(levels(answer, "strategies", "cpu").at("data parallel, ZeRO") == "runs");
    CHECK(levels(answer, "strategies", "cuda").at("data parallel, ZeRO") == "planned");
    CHECK(levels(answer, "strategies", "cpu").at("low-rank adapters") == "runs");
    for (char const* const kernel : {"linear_backward", "attention_backward", "head_cross_entropy", "rope_backward"}) {
        CHECK(levels(answer, "operations", "cpu").at(kernel) == "runs");
        CHECK(levels(answer, "operations", "cuda").at(kernel) == "none");
    }
    CHECK(levels(answer, "weights", "cuda").at("q4_0") == "runs");
    // By format and element, with the vendor's products told apart.
    auto const products = levels(answer, "products", "cuda");
    REQUIRE(products.size() == 3 * answer.size("weights"));
    std::map<std::string, std::string> paths;
    for (std::size_t i = 0; i < answer.size("products"); ++i) {
        auto const name = answer.text("products", i, "name");
        CHECK_MESSAGE(products.at(name) == "runs", name);
        paths[name] = answer.text("products", i, "backends", "cuda", "path");
        CHECK_MESSAGE(answer.text("products", i, "backends", "rocm", "path") == "own", name);
    }
    CHECK(paths.at("q4_0 by bf16") == "own");
    CHECK(paths.at("bf16 by fp32") == "own");
    for (char const* const name : {"fp32 by fp32", "bf16 by bf16", "fp16 by fp16"})
        CHECK(paths.at(name) == "own and vendor");
    CHECK(levels(answer, "products", "cpu").at("q4_0 by fp32") == "runs");
    CHECK(levels(answer, "products", "metal").at("q4_0 by fp32") == "none");
    // A device computes all that a model needs in rows of 16 bits, as in floats; the host computes in float.
    auto const in_floats = levels(answer, "operations", "cuda");
    for (char const* const table : {"bf16_operations", "fp16_operations"}) {
        CAPTURE(table);
        auto const device = levels(answer, table, "cuda");
        CHECK(device == levels(answer, table, "rocm"));
        CHECK(device.at("multiply") == "runs");
        CHECK(device.at("all_reduce") == "runs");
        // Logits are floats, so that no model bends others.
        CHECK(device.at("soft_cap") == "library");
        CHECK(in_floats.at("soft_cap") == "runs");
        for (auto const& row : device)
            CHECK_MESSAGE((row.second == in_floats.at(row.first) || row.first == "soft_cap"), row.first);
        CHECK(device.count("arg_max") == 0);
        for (auto const& row : levels(answer, table, "cpu")) CHECK_MESSAGE(row.second != "runs", row.first);
        CHECK(levels(answer, table, "metal").at("rms_norm") == "none");
    }
    REQUIRE(answer.size("levels") == 8);
    CHECK(answer.text("levels", std::size_t{0}, "name") == "portable");
    CHECK(answer.text("levels", std::size_t{7}, "name") == "amx");
    CHECK(answer.at("levels", std::size_t{0}, "here")->boolean() == true);
    CHECK(answer.at("levels", std::size_t{7}, "executed_on_hardware")->boolean() == true);
    CHECK(answer.text("levels", std::size_t{1}, "name") == "neon");
    CHECK(answer.at("levels", std::size_t{1}, "executed_on_hardware")->boolean() == false);
    // Products that would not round say so.
    CHECK(levels(answer, "int8_activations", "cpu").at("q4_k") == "runs");
    CHECK(levels(answer, "int8_activations", "cpu").at("nf4") == "none");
    CHECK(levels(answer, "int8_activations", "cpu").at("bf16") == "none");
    CHECK(levels(answer, "int8_activations", "cuda").at("q4_0") == "none");
    // Of bf16 activations the same: the weights of bf16 alone.
    for (auto const& row : levels(answer, "bf16_activations", "cpu"))
        CHECK_MESSAGE(row.second == (row.first == "bf16" ? "runs" : "none"), row.first);
    CHECK(levels(answer, "bf16_activations", "cpu").size() == levels(answer, "weights", "cpu").size());
    CHECK(levels(answer, "bf16_activations", "cuda").at("bf16") == "none");
    // What has no gradient is refused as train refuses it.
    auto const trained = levels(answer, "training", "cpu");
    for (char const* const part : {"attention", "attention to a window", "attention with soft caps", "dense products",
                                   "norms", "tables of words and positions"})
        CHECK_MESSAGE(trained.at(part) == "runs", part);
    for (char const* const part : {"routed experts", "gated delta rule", "attention with a latent (MLA)",
                                   "attention with sinks", "attention to an encoder", "norms without weights",
                                   "layer norms with an offset", "models that see both directions", "heads of labels"})
        CHECK_MESSAGE(trained.at(part) == "refused", part);
    CHECK(levels(answer, "training", "cuda").at("attention") == "none");
    auto const text = run({"support"}).out;
    CHECK(text.find("routed experts have no gradient yet") != std::string::npos);
    CHECK(text.find("is step_attention there, of one sequence, too") != std::string::npos);
    CHECK(text.find("its products take activations in full") != std::string::npos);
    CHECK(text.find("Metal shows a process one GPU") != std::string::npos);
    // A plan refuses what support says is refused.
    auto const plan = run({"plan", "gpt2", "--devices", "2xM2-Ultra-192GB", "--json"});
    CHECK_MESSAGE(plan.status == 0, plan.err);
    CHECK(Answer(plan.out).integer("plan", "tp") == 1);
    CHECK(plan.out.find("Metal shows a process one GPU") != std::string::npos);
}

TEST_CASE("support: every kernel of the library has a row, and whether a device has it is what the files say") {
    Answer const answer(run({"support", "--json"}).out);
    auto const cpu = levels(answer, "operations", "cpu");
    auto const cuda = levels(answer, "operations", "cuda");
    std::set<std::string> on_devices;
    for (auto const& file : std::filesystem::directory_iterator(SHARDWISE_SOURCE_DIR "/include/shardwise/kernels")) {
        auto const name = file.path().stem().string();
        // A kernel is a function that is called as its header is and takes a stream.
        auto const text = file.is_regular_file() ? read_text(file.path().string()) : std::string();
        bool const is_kernel = text.find("Result<> " + name + "(") != std::string::npos;
        if (file.path().extension() == ".hpp" && is_kernel) CHECK_MESSAGE(cpu.count(name) == 1, name);
        if (file.path().extension() == ".cuh" && !name.ends_with("_launch")) on_devices.insert(name);
    }
    // Several kernels may share a device body: each has a header that submits it.
    for (auto const& file :
         std::filesystem::directory_iterator(SHARDWISE_SOURCE_DIR "/include/shardwise/kernels/device")) {
        auto const name = file.path().stem().string();
        if (file.is_regular_file() &&
            read_text(file.path().string()).find("Result<> " + name + "(") != std::string::npos)
            on_devices.insert(name);
    }
    CHECK(on_devices.size() >= 5);
    for (auto const& row : cuda) CHECK_MESSAGE((row.second != "none") == (on_devices.count(row.first) == 1), row.first);
    for (auto const& name : on_devices) CHECK_MESSAGE(cuda.count(name) == 1, name);
}
