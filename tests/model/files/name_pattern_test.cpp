// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/name_pattern.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace shardwise;

namespace {

bool matches(std::string_view pattern, std::string_view name) {
    auto const parsed = NamePattern::parse(pattern);
    REQUIRE_MESSAGE(parsed, std::string(pattern));
    return parsed->matches_beginning(name);
}

}  // namespace

// Expectations are re.match's of Python 3.11.
TEST_CASE("NamePattern: matches the beginning of names as re.match does") {
    CHECK(matches(".*lm_head", "lm_head"));
    CHECK(matches(".*lm_head", "model.lm_head.weight"));
    CHECK_FALSE(matches("lm_head", "model.lm_head"));
    CHECK(matches("model.layers.*.self_attn", "model.layers.17.self_attn.q_proj"));
    CHECK_FALSE(matches("model.layers.*.self_attn", "model.layers.17.mlp.router"));
    CHECK(matches(R"(.*\.mlp\.gate$)", "model.layers.3.mlp.gate"));
    CHECK_FALSE(matches(R"(.*\.mlp\.gate$)", "model.layers.3.mlp.gate_proj"));
    CHECK(matches(R"(model\.layers\.\d+\.mlp)", "model.layers.12.mlp.up_proj"));
    CHECK_FALSE(matches(R"(model\.layers\.\d+\.mlp)", "model.layers.x.mlp.up_proj"));
    CHECK(matches("^model.layers.[0-2].mlp", "model.layers.1.mlp"));
    CHECK_FALSE(matches("model.layers.[^0-2].mlp", "model.layers.1.mlp"));
    CHECK(matches(R"([\w.]+_proj)", "model.layers.1.q_proj"));
    CHECK(matches("layers?", "layer"));
    CHECK(matches("", "anything"));
    CHECK(matches("$", ""));
    CHECK_FALSE(matches("a+", "b"));
}

TEST_CASE("NamePattern: groups of alternatives stand for each of them") {
    CHECK(matches(".*(q_proj|k_proj)$", "layers.0.k_proj"));
    CHECK_FALSE(matches(".*(q_proj|k_proj)$", "layers.0.v_proj"));
    CHECK(matches("(?:a|b(c|d))e", "bde"));
    CHECK_FALSE(matches("(?:a|b(c|d))e", "be"));
    CHECK(matches("vision.*|audio", "audio.tower"));
    CHECK(matches(R"(\(x\)|[|)]y)", ")y"));
}

TEST_CASE("NamePattern: refuses what it does not read") {
    for (std::string_view const text :
         {"(?!lm_head).*", "(a|b)+", "a{2}", "(a", "a)", "[a", R"(\bword)", "a**", "*a", "a$b"}) {
        CAPTURE(text);
        auto const parsed = NamePattern::parse(text);
        REQUIRE_FALSE(parsed);
        CHECK(parsed.error().code() == ErrorCode::unsupported);
        CHECK(parsed.error().place() == text);
    }
    CHECK(NamePattern::parse(std::string(513, 'a')).error().code() == ErrorCode::capacity_exceeded);
    std::string many;
    for (int i = 0; i < 10; ++i) many += "(a|b)";
    CHECK(NamePattern::parse(many).error().code() == ErrorCode::capacity_exceeded);
}

TEST_CASE("NamePattern: a pattern that backtracks everywhere takes no longer than its size") {
    std::string pattern;
    for (int i = 0; i < 100; ++i) pattern += ".*a?";
    CHECK_FALSE(matches(pattern + "x$", std::string(300, 'a')));
}
