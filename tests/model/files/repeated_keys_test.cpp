// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/end_tokens.hpp>
#include <shardwise/model/files/rope_divisors.hpp>

#include <doctest/doctest.h>

#include "checkpoint_fixtures.hpp"

#include <string>
#include <string_view>

/// Keys that stand twice in one object of a model's files: Python reads the last one.
namespace {

using namespace shardwise;
using testing::TemporaryFolder;

/// A config.json with these members before the usual ones: what is said of it.
std::string said_of(std::string const& members) {
    auto const config = read_config("{" + members + "," + std::string(testing::tiny_llama + 1), "config.json");
    if (!config) return "refused: " + config.error().message();
    std::string out;
    for (auto const& warning : config->warnings) out += warning;
    return out;
}

}  // namespace

TEST_CASE("config.json: a key that stands twice is refused only where the model depends on it") {
    CHECK(said_of(R"("a":1)") == "");
    // Under keys that mean nothing.
    auto const harmless = [](std::string_view key) {
        return "config.json: the key \"" + std::string(key) + "\" occurs twice in one object, which changes nothing that is read";
    };
    CHECK(said_of(R"("a":1,"a":2)") == harmless("a"));
    CHECK(said_of(R"("task_specific_params":{"x":{"y":1,"y":2}})") == harmless("y"));
    CHECK(said_of(R"("label2id":{"a":0,"a":1})") == harmless("a"));
    // The same value twice is one value.
    CHECK(said_of(R"("hidden_size":4)") == harmless("hidden_size"));
    CHECK(said_of(R"("architectures":["LlamaForCausalLM"])") == harmless("architectures"));
    // Values that differ under keys that mean something.
    auto const refused = [](std::string_view key) {
        return "refused: config.json: " + std::string(key) + ": occurs twice in one object; keep one of the two";
    };
    CHECK(said_of(R"("hidden_size":8)") == refused("hidden_size"));
    CHECK(said_of(R"("torch_dtype":"float32")") == refused("torch_dtype"));
    CHECK(said_of(R"("architectures":["LlamaModel"])") == refused("architectures"));
    CHECK(said_of(R"("rope_theta":1,"rope_theta":2)") == refused("rope_theta"));
    CHECK(said_of(R"("rope_scaling":{"rope_type":"linear","factor":2.0,"factor":4.0})") == refused("factor"));
    CHECK(said_of(R"("id2label":{"0":"a","0":"b"})") == refused("0"));
    CHECK(said_of(R"("model_type":"llama","hidden_size":{})") == refused("hidden_size"));
    // The last one counts: what it says is what is wrong.
    CHECK(said_of(R"("vocab_size":8,"num_key_value_heads":1,"rope_scaling":null,"rope_scaling":3)").starts_with("refused: "));
}

TEST_CASE("generation_config.json and lists of rotation: the same rule") {
    TemporaryFolder const at;
    at.write("config.json", "{\"x\":1,\"x\":2," + std::string(testing::tiny_llama + 1));
    auto const ids_with = [&](std::string_view generation) {
        at.write("generation_config.json", generation);
        auto const source = find_model(at.path(), {}, HubCache(HubEnvironment{}));
        REQUIRE(source);
        OpenCheckpoint files(*source);
        CHECK(read_rope_divisors(files));
        return end_tokens(files);
    };
    CHECK(ids_with(R"({"temperature":1,"temperature":2,"eos_token_id":7})")->front() == 7);
    CHECK(ids_with(R"({"eos_token_id":7,"eos_token_id":7})")->front() == 7);
    auto const refused = ids_with(R"({"eos_token_id":6,"eos_token_id":7})");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().subject() == at / "generation_config.json");
    CHECK(refused.error().place() == "eos_token_id");
}
