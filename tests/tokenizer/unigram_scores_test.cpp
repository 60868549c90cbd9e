// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/tokenizer/files/tokenizer_json.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

using namespace shardwise;

TEST_CASE("Unigram: scores are the numbers that tokenizers reads, and ties are cut as there") {
    auto const open = [](std::string const& name) {
        auto const text = read_text_file(SHARDWISE_SOURCE_DIR "/tests/golden/tokenizer/" + name, std::size_t{1} << 20U);
        REQUIRE(text);
        return *text;
    };
    auto const tokenizer = parse_tokenizer_json(open("unigram.json"), "unigram.json");
    REQUIRE(tokenizer);
    std::istringstream lines(open("scores.txt"));
    std::string line;
    int numbers = 0;
    int off = 0;
    int runs = 0;
    while (std::getline(lines, line)) {
        std::istringstream fields(line);
        std::string kind;
        std::string text;
        fields >> kind >> text;
        INFO(line);
        if (kind == "number") {
            std::uint64_t wanted = 0;
            fields >> std::hex >> wanted;
            std::uint64_t bits = 0;
            auto const value = detail::tokenizer_number(text);
            std::memcpy(&bits, &value, sizeof bits);
            CHECK(bits == wanted);
            auto const document = parse_json("[" + text + "]");
            REQUIRE(document);
            off += (*document->root().begin()).real().value_or(0.0) != value ? 1 : 0;
            ++numbers;
        } else {
            std::vector<TokenId> wanted;
            for (TokenId id = 0; fields >> id;) wanted.push_back(id);
            CHECK(tokenizer->encode(text).value() == wanted);
            ++runs;
        }
    }
    CHECK(numbers == 318);
    CHECK(off > 20);  // else the rule would not matter
    CHECK(runs == 200);
}

TEST_CASE("A score that is too large only as tokenizers reads it is refused") {
    auto const tokenizer =
        parse_tokenizer_json(R"({"model":{"type":"Unigram","vocab":[["a",17976931348623158e292]]}})", "tokenizer.json");
    REQUIRE(!tokenizer);
    INFO(tokenizer.error().message());
    CHECK(tokenizer.error().code() == ErrorCode::malformed_file);
    CHECK(tokenizer.error().message().find("too large") != std::string::npos);
}
