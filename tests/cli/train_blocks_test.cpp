// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "training.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

using Words = std::vector<std::string>;

/// A model whose rows and columns four tensor-parallel ranks share by blocks of 256 elements; 1,088 columns two ranks do not.
std::string blocks_config(std::string const& inner) {
    return R"({"vocab_size":61,"hidden_size":8,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":256,)"
           R"("num_hidden_layers":2,"max_position_embeddings":64,"model_type":"llama","dtype":"bfloat16",)"
           R"("architectures":["LlamaForCausalLM"],"intermediate_size":)" +
           inner + "}";
}

}  // namespace

TEST_CASE(
    "train --optimizer adam8bit --tp: the same weights, states and checkpoints on ranks that share whole blocks, after "
    "a restart too, in the predicted memory") {
    Training const training;
    auto const config = training.folder.write("config.json", blocks_config("1024"));
    auto const words = [&](std::string const& model, std::string const& name, Words const& more) {
        Words all{"train",     model, "--from-scratch", "--data", training.data,  "--out", training.out(name),
                  "--batch",   "4",   "--context",      "8",      "--json",       "--lr",  "3e-3",
                  "--threads", "1",   "--steps",        "4",      "--save-every", "2",     "--optimizer",
                  "adam8bit"};
        all.insert(all.end(), {"--precision", "fp32"});
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    auto const check = [](Answer const& answer, std::size_t ranks) {
        CHECK(answer.size("memory", "ranks") == ranks);
        for (std::size_t rank = 0; rank < ranks; ++rank)
            CHECK(answer.integer("memory", "ranks", rank, "peak") ==
                  answer.integer("memory", "ranks", rank, "predicted"));
    };
    auto const one = run(words(config, "one", {}));
    REQUIRE_MESSAGE(one.status == 0, one.err);
    Answer const expected(one.out);
    check(expected, 1);
    auto const state = [&](std::string const& name, std::string const& step) {
        return read_text(training.out(name) + "/" + step + "/optimizer.safetensors");
    };
    CHECK(state("one", "step-000004").find("exp_avg_absmax.model.layers.0.mlp.down_proj.weight") != std::string::npos);
    struct Way {
        Words flags;
        std::size_t ranks;
    };
    int number = 0;
    for (auto const& way : std::vector<Way>{{{"--tp", "2", "--micro-batch", "4"}, 2},
                                            {{"--tp", "4", "--ranks", "processes"}, 4},
                                            {{"--tp", "2", "--dp", "2", "--zero", "2"}, 4},
                                            {{"--tp", "2", "--pp", "2"}, 4}}) {
        auto const name = "way" + std::to_string(number++);
        CAPTURE(name);
        auto const ran = run(words(config, name, way.flags));
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        Answer const answer(ran.out);
        check(answer, way.ranks);
        CHECK(answer.text("weights_hash") == expected.text("weights_hash"));
        CHECK(answer.real("loss", "last") == expected.real("loss", "last"));
        for (auto const* const step : {"step-000002", "step-000004"}) CHECK(state(name, step) == state("one", step));
        auto dry = way.flags;
        dry.emplace_back("--dry-run");
        Answer const planned(run(words(config, "dry", dry)).out);
        for (std::size_t rank = 0; rank < way.ranks; ++rank)
            CHECK(planned.integer("memory", "ranks", rank, "predicted") ==
                  answer.integer("memory", "ranks", rank, "predicted"));
        if (number > 1) continue;
        // The estimate is the same to the byte.
        Answer const estimate(
            run({"estimate", config, "--training", "adam8bit", "--tp", "2", "--context", "8", "--batch", "4", "--json"})
                .out);
        for (std::size_t rank = 0; rank < way.ranks; ++rank)
            CHECK(estimate.integer("devices", rank, "total") == answer.integer("memory", "ranks", rank, "predicted"));
    }
    // From the first checkpoint of one rank two go on, and one from that of two.
    for (auto const& [from, tp] : {std::pair{"one", "2"}, std::pair{"way0", "1"}}) {
        auto const name = std::string("from_") + from;
        CAPTURE(name);
        std::filesystem::create_directories(training.out(name));
        std::filesystem::copy(training.out(from) + "/step-000002", training.out(name) + "/step-000002",
                              std::filesystem::copy_options::recursive);
        auto const ran = run(words(config, name, {"--tp", tp}));
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        CHECK(Answer(ran.out).text("weights_hash") == expected.text("weights_hash"));
        CHECK(state(name, "step-000004") == state("one", "step-000004"));
    }
    // What would cut a block is named, and nothing is written.
    auto const other = training.folder.write("other.json", blocks_config("1088"));
    auto const refused = run(words(other, "refused", {"--tp", "2"}));
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.says("--optimizer adam8bit, --tp: model.layers.0.mlp.down_proj.weight: is cut by 2 "
                               "tensor-parallel ranks within a block of the optimizer's state"),
                  refused.err);
    CHECK_FALSE(exists(training.out("refused")));
    auto const estimated = Answer(run({"estimate", other, "--training", "adam8bit", "--tp", "2", "--json"}).out);
    CHECK(estimated.text("train", "reason").find("model.layers.0.mlp.down_proj.weight") != std::string::npos);
}
