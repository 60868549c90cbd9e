// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

[[nodiscard]] Ran plan(std::vector<std::string> words) {
    words.insert(words.begin(), "plan");
    return run(words);
}

/// Every member that docs/reference/json.md names, whatever the answer: absent is not null.
void check_members(Answer const& answer, bool is_fitting) {
    for (auto const* key : {"schema", "model", "request", "fits", "plan", "stages", "ranks", "cost", "tp_plan", "reasons",
                            "alternatives", "search", "reason", "fix", "warnings"}) {
        CAPTURE(key);
        CHECK(answer.at(key).has_value());
    }
    for (auto const* key :
         {"objective", "devices", "context", "batch", "dtype", "quant", "kv_dtype", "training", "pins", "even"}) {
        CAPTURE(key);
        CHECK(answer.at("request", key).has_value());
    }
    for (auto const* key : {"tp", "pp", "dp", "ep", "zero", "micro_batches"}) {
        CAPTURE(key);
        CHECK(answer.at("request", "pins", key).has_value());
        CHECK(answer.at("plan", key).has_value() == is_fitting);
    }
    CHECK(answer.text("schema") == "shardwise.plan/1");
    REQUIRE(answer.at("fits"));
    CHECK(answer.at("fits")->boolean() == is_fitting);
    for (auto const* key : {"plan", "cost", "tp_plan", "search"}) {
        CAPTURE(key);
        CHECK(answer.is_null(key) != is_fitting);
    }
    for (auto const* key : {"stages", "ranks", "reasons", "alternatives", "fix", "warnings"}) {
        CAPTURE(key);
        REQUIRE(answer.at(key));
        CHECK(answer.at(key)->is_array());
    }
    for (auto const* key : {"stages", "ranks", "reasons"}) CHECK((answer.size(key) > 0) == is_fitting);
    CHECK(answer.is_null("reason") == is_fitting);
    CHECK((answer.size("fix") > 0) != is_fitting);
}

}  // namespace

TEST_CASE("plan --json: has every documented member, where a plan fits and where none does") {
    auto const fits = plan({"llama-3-8b", "--devices", "2xA100-80GB", "--json"});
    REQUIRE(fits.status == 0);
    check_members(Answer(fits.out), true);
    for (std::vector<std::string> const& words :
         {std::vector<std::string>{"llama-3-70b", "--devices", "1xA100-80GB", "--json"},
          {"llama-3-70b", "--devices", "1xA100-80GB", "--objective", "throughput", "--json"},
          {"llama-3-70b", "--devices", "4xA100-80GB", "--tp", "1", "--pp", "1", "--json"},
          {"llama-3-70b", "--devices", "2xA100-80GB", "--training", "adam", "--json"}}) {
        auto const none = plan(words);
        CHECK(none.status == 3);
        check_members(Answer(none.out), false);
    }
}

TEST_CASE("plan: pins are kept to, shown, and estimated as estimate does") {
    auto const ran = plan({"mixtral-8x7b", "--devices", "8xA100-80GB", "--batch", "8", "--tp", "2", "--ep", "2", "--dp", "2",
                           "--pp", "1", "--json"});
    REQUIRE(ran.status == 0);
    Answer const answer(ran.out);
    for (auto const& [name, degree] : {std::pair{"tp", 2}, std::pair{"pp", 1}, std::pair{"dp", 2}, std::pair{"ep", 2}}) {
        CHECK(answer.integer("plan", name) == degree);
        CHECK(answer.integer("request", "pins", name) == degree);
    }
    CHECK(answer.is_null("request", "pins", "zero"));
    auto const text = plan({"mixtral-8x7b", "--devices", "8xA100-80GB", "--batch", "8", "--tp", "2"});
    CHECK(text.out.find("tensor parallel 2, as asked for") != std::string::npos);
    auto const training = plan({"llama-3-8b", "--devices", "8xA100-80GB", "--batch", "8", "--training", "adam", "--zero", "3",
                                "--dp", "8", "--micro-batches", "1", "--json"});
    REQUIRE(training.status == 0);
    CHECK(Answer(training.out).integer("plan", "zero") == 3);
    CHECK(Answer(training.out).integer("plan", "dp") == 8);
}

TEST_CASE("plan: a pin that is not legal is wrong usage, and the error names it and what is legal") {
    struct Case {
        std::vector<std::string> words;
        std::string text;
    };
    for (auto const& [words, text] : {
             Case{{"--tp", "64"}, "--tp: is more than the model has query heads (got 64, expected at most 32); legal are 1 to 32"},
             Case{{"--pp", "33"}, "--pp: is more than the model has layers"},
             Case{{"--tp", "0"}, "--tp: must be at least 1"},
             Case{{"--dp", "-2", "--batch", "4"}, "--dp: must be at least 1"},
             Case{{"--dp", "5", "--batch", "4"}, "--dp: is more replicas than the batch has sequences"},
             Case{{"--ep", "2"}, "--ep: shards experts, and the model has none"},
             Case{{"--tp", "16", "--pp", "8"}, "--tp, --pp: ask for more ranks together than there are devices"},
             Case{{"--micro-batches", "2"}, "--micro-batches: is more micro-batches than a rank has sequences"},
             Case{{"--tp", "3", "--even"}, "legal are 1, 2, 4, 8, 16, 32"},
             Case{{"--tp", "two"}, "--tp: two: is not a whole number"},
             Case{{"--training", "adam", "--zero", "4"}, "--zero: 4"}}) {
        std::vector<std::string> all{"llama-3-8b", "--devices", "8x(8xH100-80GB)", "--json"};
        all.insert(all.end(), words.begin(), words.end());
        auto const ran = plan(all);
        CHECK_MESSAGE(ran.status == 2, ran.err);
        CHECK_MESSAGE(ran.says(text), ran.err);
        CHECK(Answer(ran.out).text("error", "code") == "invalid_argument");
    }
    auto const few = plan({"llama-3-8b", "--devices", "4xH100-80GB", "--tp", "8"});
    CHECK(few.status == 2);
    CHECK(few.says("--tp: is more than there are devices (got 8, expected at most 4); legal are 1 to 4"));
}

TEST_CASE("plan: where nothing fits with the pins, the fixes name other degrees, and they do help") {
    auto const ran = plan({"llama-3-70b", "--devices", "4xA100-80GB", "--tp", "1", "--json"});
    // Four stages of a pipeline hold it.
    CHECK(ran.status == 0);
    auto const none = plan({"llama-3-70b", "--devices", "4xA100-80GB", "--tp", "1", "--pp", "1", "--json"});
    REQUIRE(none.status == 3);
    Answer const answer(none.out);
    REQUIRE(answer.size("fix") >= 2);
    CHECK(answer.text("fix", std::size_t{0}, "kind") == "tp");
    auto const tp = answer.integer("fix", std::size_t{0}, "tp");
    CHECK(plan({"llama-3-70b", "--devices", "4xA100-80GB", "--tp", std::to_string(tp), "--pp", "1"}).status == 0);
    CHECK(answer.text("fix", std::size_t{1}, "kind") == "pp");
    auto const pp = answer.integer("fix", std::size_t{1}, "pp");
    CHECK(plan({"llama-3-70b", "--devices", "4xA100-80GB", "--tp", "1", "--pp", std::to_string(pp)}).status == 0);
    // A smaller batch than pinned replicas need is none.
    auto const batch = plan({"llama-3-8b", "--devices", "2xgpu:18GiB", "--dp", "2", "--batch", "64", "--context", "8192", "--json"});
    REQUIRE(batch.status == 3);
    Answer const fixes(batch.out);
    for (std::size_t i = 0; i < fixes.size("fix"); ++i)
        if (fixes.text("fix", i, "kind") == "batch") CHECK(fixes.integer("fix", i, "batch") >= 2);
}

TEST_CASE("plan --even: keeps to even degrees; without it the best even plan is marked") {
    std::vector<std::string> const job{"qwen2.5-7b", "--devices", "3xA100-80GB"};
    auto with = [&](std::vector<std::string> const& more) {
        auto all = job;
        all.insert(all.end(), more.begin(), more.end());
        return plan(all);
    };
    Answer const free(with({"--json"}).out);
    CHECK(free.integer("plan", "tp") == 3);
    REQUIRE(free.at("plan", "even"));
    CHECK(free.at("plan", "even")->boolean() == false);
    Answer const even(with({"--even", "--json"}).out);
    CHECK(even.at("plan", "even")->boolean() == true);
    CHECK(even.at("request", "even")->boolean() == true);
    bool is_found = false;
    for (std::size_t i = 0; i < free.size("alternatives"); ++i) {
        REQUIRE(free.at("alternatives", i, "even"));
        if (free.at("alternatives", i, "even")->boolean() != true) continue;
        if (!std::exchange(is_found, true)) {
            CHECK(free.integer("alternatives", i, "tp") == even.integer("plan", "tp"));
            CHECK(free.integer("alternatives", i, "pp") == even.integer("plan", "pp"));
        }
    }
    CHECK(is_found);
    CHECK(with({}).out.find("(the best even plan)") != std::string::npos);
    CHECK(with({"--even"}).out.find("(the best even plan)") == std::string::npos);
}

TEST_CASE("plan --max-memory: limits devices by their number, and names those that do not exist") {
    std::vector<std::string> const job{"llama-3-8b", "--devices", "2xA100-80GB", "--json"};
    auto with = [&](std::string const& limits) {
        auto all = job;
        all.insert(all.end(), {"--max-memory", limits});
        return plan(all);
    };
    auto const one = with(R"({"0": "12GiB", "cuda:1": 17179869184})");
    REQUIRE(one.status == 0);
    Answer const answer(one.out);
    REQUIRE(answer.size("ranks") == 2);
    CHECK(answer.integer("ranks", std::size_t{0}, "capacity") == std::int64_t{12} << 30);
    CHECK(answer.integer("ranks", std::size_t{1}, "capacity") == std::int64_t{16} << 30);
    for (std::size_t i = 0; i < 2; ++i)
        CHECK(answer.integer("ranks", i, "bytes") <= answer.integer("ranks", i, "capacity"));
    // A device that is not named keeps what it has.
    Answer const other(with(R"({"1": "12GiB"})").out);
    for (std::size_t i = 0; i < other.size("ranks"); ++i)
        if (other.integer("ranks", i, "device") == 0) CHECK(other.integer("ranks", i, "capacity") > std::int64_t{70} << 30);
    CHECK(with(R"({"0": "4GiB", "1": "4GiB"})").status == 3);
    auto const none = with(R"({"2": "12GiB"})");
    CHECK(none.status == 4);
    CHECK(none.says("--max-memory: 2: is none of --devices; their numbers are 0, 1"));
    CHECK(with("{").status == 2);
    CHECK(with(R"({"0": "12 apples"})").status == 2);
    CHECK(with(R"({"gpu": "12GiB"})").status == 2);
    CHECK(plan({"llama-3-8b", "--max-memory", R"({"0": "12GiB"})"}).says("--devices: was not given"));
    auto const more = with(R"({"0": "100GiB"})");
    CHECK(more.says("--max-memory: device 0 is to use 100.00 GiB and has "));
}
