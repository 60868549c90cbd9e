// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/tokenizer/files/tokenizer_json.hpp>
#include <shardwise/train/chat_tokens.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <string>

using namespace shardwise;

namespace {

Tokenizer tokenizer_of(std::string const& name) {
    auto const path = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/tokenizer/" + name;
    return std::move(*parse_tokenizer_json(*read_text_file(path, 1 << 20), path));
}

std::string mask_of(ChatTokens const& tokens) {
    std::string out;
    for (auto const one : tokens.is_answer) out += one != 0 ? '1' : '0';
    return out;
}

/// The mask of a line, or why there is none.
std::string read(std::string const& chat_template, std::string const& line,
                 std::string const& tokenizer = "gpt2.json") {
    auto const made = tokenizer_of(tokenizer);
    auto const reader = ChatReader::create(made, chat_template, {});
    if (!reader) return reader.error().message();
    auto const document = parse_json(line);
    REQUIRE(document);
    auto const tokens = reader->read(document->root());
    return tokens ? mask_of(*tokens) : tokens.error().message();
}

constexpr auto hello = R"({"messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]})";

}  // namespace

TEST_CASE(
    "ChatReader: what the assistant writes is what transformers' masks say, and where they say nothing what follows "
    "the prompt") {
    std::ifstream file(SHARDWISE_SOURCE_DIR "/tests/golden/chat/masks.jsonl");
    std::string line;
    REQUIRE(std::getline(file, line));
    auto const first = parse_json(line);
    REQUIRE(first);
    auto const templates = *first->root().find("templates");
    std::size_t masks = 0;
    std::size_t refused = 0;
    while (std::getline(file, line)) {
        auto const document = parse_json(line);
        REQUIRE(document);
        auto const root = document->root();
        auto const name = std::string(*root.find("template")->string());
        auto const tokenizer = std::string(*root.find("tokenizer")->string());
        CAPTURE(name);
        CAPTURE(tokenizer);
        SpecialTokenTexts special;
        auto const texts = *root.find("special");
        for (auto const one : texts) special.emplace_back(one.key(), *one.string());
        auto const made = tokenizer_of(tokenizer);
        auto const reader = ChatReader::create(made, *templates.find(name)->string(), special);
        REQUIRE(reader);
        auto const tokens = reader->read(*root.find("line"));
        auto const mask = root.find("mask")->string();
        if (mask) {
            REQUIRE_MESSAGE(tokens, tokens.error().message());
            CHECK(mask_of(*tokens) == *mask);
            ++masks;
        } else {
            REQUIRE_FALSE(tokens);
            auto const says =
                root.find("says") ? *root.find("says")->string() : std::string_view("does not mark answers");
            CHECK_MESSAGE(tokens.error().message().find(says) != std::string::npos, tokens.error().message());
            ++refused;
        }
    }
    CHECK(masks >= 143);
    CHECK(refused >= 65);
}

TEST_CASE("ChatReader: what is no chat, has no answer or cannot be told apart is refused with the reason") {
    std::string const plain = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    std::string const with_prompt = plain + "{% if add_generation_prompt %}assistant: {% endif %}";
    CHECK(read(with_prompt, hello).find('1') != std::string::npos);
    CHECK(read("", hello).find("has no chat template") != std::string::npos);
    CHECK(read("{% if %}", hello).starts_with("is a chat; chat_template: line 1: "));
    for (auto const* const line :
         {R"({"messages": []})", R"({"messages": 3})", R"({"messages": ["A"]})", R"({"messages": [{"content": "A"}]})"})
        CHECK(read(with_prompt, line).find("no list of objects with a role") != std::string::npos);
    CHECK(read(with_prompt, R"({"messages": [{"role": "user", "content": "A"}]})").find("without an answer") !=
          std::string::npos);
    CHECK(read("{{ raise_exception('No.') }}", hello).find("refuses the conversation: No.") != std::string::npos);
    CHECK(read("{{ strftime_now('%Y') }}", hello).find("asks for the date") != std::string::npos);
    CHECK(read("{{ messages | length }}" + with_prompt, hello).find("writes message 2 otherwise") != std::string::npos);
    CHECK(read("{% macro m() %}{% generation %}B{% endgeneration %}{% endmacro %}{{ m() }}", hello)
              .find("within a macro") != std::string::npos);
    // bert's tokenizer makes small letters of them.
    CHECK(read(with_prompt, hello, "bert.json").find("the tokenizer changes its text") != std::string::npos);
}
