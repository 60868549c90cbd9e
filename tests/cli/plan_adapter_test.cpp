// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

using Words = std::vector<std::string>;

Words joined(Words words, Words const& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

/// The sum over ranks of a term, of plan and of estimate.
std::int64_t sum_of(Answer const& answer, bool is_plan, std::int64_t ranks, char const* term) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < ranks; ++i) {
        auto const at = static_cast<std::size_t>(i);
        sum += is_plan ? answer.integer("ranks", at, term) : answer.integer("train", "ranks", at, term);
    }
    return sum;
}

}  // namespace

TEST_CASE("plan --lora: ranks have the bytes of estimate, and what train does not run is refused by name") {
    struct Way {
        Words adapter;
        Words degrees;
        std::int64_t ranks;
    };
    for (auto const& way : std::vector<Way>{{{"--lora", "2"}, {}, 1},
                                            {{"--lora", "4", "--quant", "int8"}, {}, 1},
                                            {{"--lora", "2", "--lora-targets", "q_proj,v_proj"}, {"--dp", "2"}, 2},
                                            {{"--lora", "2"}, {"--dp", "2", "--zero", "1"}, 2},
                                            {{"--lora", "2", "--quant", "int8"}, {"--dp", "4", "--zero", "3"}, 4},
                                            {{"--lora", "2", "--lora-dropout", "0.1"}, {"--pp", "2"}, 2}}) {
        auto const flags =
            joined({"--training", "adam", "--context", "32", "--json"}, joined(way.adapter, way.degrees));
        CAPTURE(flags);
        auto const devices = std::to_string(way.ranks) + "xgpu:24GiB";
        auto const pins = way.degrees.empty()        ? Words{"--tp", "1"}
                          : way.degrees[0] == "--pp" ? Words{"--tp", "1", "--dp", "1"}
                                                     : Words{"--tp", "1", "--pp", "1"};
        auto const planned = run(
            joined({"plan", "demo", "--devices", devices, "--batch", std::to_string(way.ranks)}, joined(flags, pins)));
        REQUIRE_MESSAGE(planned.status == 0, planned.err);
        auto const estimated = run(joined({"estimate", "demo"}, flags));
        REQUIRE_MESSAGE(estimated.status == 0, estimated.err);
        Answer const plan(planned.out);
        Answer const estimate(estimated.out);
        auto const parameters = plan.integer("request", "training", "adapter", "parameters");
        CHECK(parameters == estimate.integer("train", "adapter", "parameters"));
        CHECK(std::to_string(plan.integer("request", "training", "adapter", "rank")) == way.adapter[1]);
        CHECK(sum_of(plan, true, way.ranks, "weights") == sum_of(estimate, false, way.ranks, "weights"));
        CHECK(sum_of(plan, true, way.ranks, "optimizer") == sum_of(estimate, false, way.ranks, "optimizer"));
        bool const is_shared = way.degrees.size() > 2 && way.degrees[3] == "3";
        bool const has_stages = !way.degrees.empty() && way.degrees[0] == "--pp";
        CHECK(sum_of(plan, true, way.ranks, "gradients") == 4 * parameters * (is_shared || has_stages ? 1 : way.ranks));
    }
}

TEST_CASE(
    "plan --lora: names the adapter, plans no degree that train does not run, and packs the base of a large one") {
    Words const asked{"plan", "demo",      "--devices", "4xgpu:24GiB", "--training",
                      "adam", "--context", "32",        "--lora",      "1"};
    auto const text = run(joined(asked, {"--batch", "1"}));
    REQUIRE_MESSAGE(text.status == 0, text.err);
    CHECK(text.out.find("training an adapter of rank 1, ") != std::string::npos);
    // One rank of columns is not shared.
    CHECK(text.out.find("no larger one that there are devices for is run by the trainer") != std::string::npos);
    Answer const plan(run(joined(asked, {"--batch", "1", "--json"})).out);
    CHECK(plan.integer("plan", "tp") == 1);

    // 8 billion parameters in 4 bits fit a device that fp32 does not.
    Words const eight{"plan",      "llama-3-8b", "--devices", "1xRTX4090", "--training", "adam",
                      "--context", "512",        "--lora",    "8",         "--json"};
    CHECK(run(eight).status == 3);
    Answer const packed(run(joined(eight, {"--quant", "nf4"})).out);
    CHECK(packed.text("request", "quant") == "nf4");
    // 7.0 billion parameters of products in 4.5 bits each, the table and the head in fp32.
    CHECK(packed.integer("ranks", std::size_t{0}, "weights") > 8'000'000'000);
    CHECK(packed.integer("ranks", std::size_t{0}, "weights") < 8'500'000'000);

    struct Case {
        Words words;
        int status;
        char const* says;
    };
    for (auto const& one : std::vector<Case>{
             {{"--lora", "2"}, 2, "--lora: is of training; add --training adam"},
             {{"--training", "adam", "--convention", "zero", "--lora", "2"}, 2, "leave out --convention"},
             {{"--training", "adam", "--lora-targets", "q_proj"}, 2, "add --lora R"},
             {{"--training", "adam", "--lora", "2", "--lora-targets", "q_prj"}, 1, "q_proj"},
             {{"--training", "adam", "--lora", "2", "--tp", "4"}, 1, "is below the tensor-parallel ranks"},
             {{"--training", "adam", "--lora", "2", "--sequence-parallel"},
              1,
              "tensor-parallel ranks and stages alone"},
             {{"--training", "adam", "--lora", "2", "--attention", "eager"}, 1, "matrix of probabilities"}}) {
        CAPTURE(one.says);
        auto const ran = run(joined({"plan", "demo", "--devices", "4xgpu:24GiB"}, one.words));
        CHECK_MESSAGE(ran.status == one.status, ran.err);
        CHECK_MESSAGE(ran.says(one.says), ran.err);
    }
}
