// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

#include <string>

using namespace shardwise::tests;

namespace {

std::string const bert = SHARDWISE_SOURCE_DIR "/tests/golden/tokenizer/bert.json";

/// A folder with bert.json as its tokenizer.json.
struct Model {
    TemporaryFolder folder;

    explicit Model(std::string const& text = read_text(bert)) { folder.write("tokenizer.json", text); }
    [[nodiscard]] std::string path() const { return folder.path("tokenizer.json"); }
};

}  // namespace

TEST_CASE("tokenize: a text gives ids, tokens and the text of the ids") {
    Model const model;
    auto const ran = run({"tokenize", model.path(), "--text", "The fox", "--json"});
    REQUIRE(ran.status == 0);
    Answer const answer(ran.out);
    CHECK(answer.text("schema") == "shardwise.tokenize/1");
    REQUIRE(answer.size("ids") == answer.size("tokens"));
    CHECK(answer.integer("ids", std::size_t{0}) == 2);
    CHECK(answer.text("tokens", std::size_t{0}) == "[CLS]");
    CHECK(answer.text("tokens", std::size_t{1}) == "the");
    CHECK(answer.text("text") == "the fox");
}

TEST_CASE("tokenize: a folder that holds a tokenizer.json and no model is that tokenizer") {
    Model const model;
    auto const file = run({"tokenize", model.path(), "--text", "The fox", "--json"});
    auto const folder = run({"tokenize", model.folder.path(), "--text", "The fox", "--json"});
    CHECK(folder.status == 0);
    CHECK(folder.out == file.out);
    CHECK(folder.err.empty());
    CHECK(run({"tokenize", model.folder.path() + "/", "--text", "The fox", "--json"}).out == file.out);
    TemporaryFolder const empty;
    auto const nothing = run({"tokenize", empty.path(), "--text", "a"});
    CHECK(nothing.status == 1);
    CHECK(nothing.err.find(empty.path()) != std::string::npos);
}

TEST_CASE("tokenize: chained replacements are refused by the step that makes too much") {
    std::string steps;
    for (int i = 0; i < 40; ++i) {
        steps += std::string(i == 0 ? "" : ",") + R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
    }
    Model const model(R"({"normalizer":{"type":"Sequence","normalizers":[)" + steps +
                      R"(]},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
    auto const ran = run({"tokenize", model.folder.path(), "--text", "a"});
    CHECK(ran.status != 0);
    CHECK_MESSAGE(ran.err.find("normalizer step 17, Replace") != std::string::npos, ran.err);
}

TEST_CASE("tokenize: ids give the text back") {
    Model const model;
    auto const there = Answer(run({"tokenize", model.path(), "--text", "hello, world!", "--json"}).out);
    std::string ids;
    for (std::size_t i = 0; i < there.size("ids"); ++i)
        ids += (i == 0 ? "" : ",") + std::to_string(there.integer("ids", i));
    auto const back = run({"tokenize", model.path(), "--decode", ids});
    CHECK(back.status == 0);
    CHECK(back.out.find("[SEP]") != std::string::npos);
    CHECK(back.out.ends_with("\nhello, world!\n"));
    auto const nothing = run({"tokenize", model.path(), "--decode", "", "--json"});
    CHECK(nothing.status == 0);
    CHECK(Answer(nothing.out).size("ids") == 0);
}

TEST_CASE("tokenize: what cannot be done is said") {
    Model const model;
    CHECK(run({"tokenize", model.path()}).status == 2);
    auto const nobody = run({"tokenize", "--text", "a"});
    CHECK(nobody.status == 2);
    CHECK(nobody.says("MODEL: was not given"));
    CHECK(run({"tokenize", model.path(), "--text", "a", "--decode", "1"}).status == 2);
    CHECK(run({"tokenize", model.path(), "--decode", "1,x"}).status == 2);
    auto const unknown = run({"tokenize", model.path(), "--decode", "1,999999", "--json"});
    CHECK(unknown.status == 2);
    CHECK(Answer(unknown.out).text("error", "code") == "invalid_argument");
    CHECK(unknown.says("999999"));
    auto const preset = run({"tokenize", "llama-3-8b", "--text", "a"});
    CHECK(preset.status == 1);
    CHECK(preset.says("preset"));
    CHECK(run({"tokenize", "/nowhere/at/all", "--text", "a"}).status == 2);
    Model const strange(R"({"model":{"type":"Mystery"}})");
    auto const refused = run({"tokenize", strange.path(), "--text", "a"});
    CHECK(refused.status == 1);
    CHECK(refused.says("Mystery"));
}
