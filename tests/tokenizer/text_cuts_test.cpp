// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/tokenizer/files/tokenizer_json.hpp>
#include <shardwise/tokenizer/text_cuts.hpp>

#include <doctest/doctest.h>

#include <array>
#include <random>

using namespace shardwise;

namespace {

std::string text_of(std::string const& path) {
    return *read_text_file(std::string(SHARDWISE_SOURCE_DIR) + path, std::size_t{1} << 24U);
}
Tokenizer read_tokenizer(std::string const& path) {
    auto read = parse_tokenizer_json(text_of(path), path);
    REQUIRE(read);
    return std::move(*read);
}

struct InParts {
    std::vector<TokenId> ids;
    std::size_t parts = 0;
};
InParts in_parts(Tokenizer const& tokenizer, std::string_view text, std::size_t bytes) {
    InParts out;
    std::size_t done = 0;
    auto const take = [&](Span<TokenId const> ids, std::size_t end) -> Result<> {
        out.ids.insert(out.ids.end(), ids.begin(), ids.end());
        CHECK((end > done || text.empty()));
        done = end;
        ++out.parts;
        return {};
    };
    REQUIRE(tokenizer.encode_in_parts(text, take, {}, bytes));
    CHECK(done == text.size());
    return out;
}

/// What tokenizers treat apart: white space of several kinds, marks, Hangul in parts, joiners, what lower case and normal forms change,
/// added tokens, letters outside of the first plane, bytes that are no UTF-8.
constexpr std::array pieces{"a",
                            "B",
                            "don't",
                            "'s",
                            " ",
                            "  ",
                            "\n",
                            "\r\n",
                            "\t",
                            "1",
                            "2345",
                            ".",
                            ",",
                            "!?",
                            "-",
                            "\xC3\xA9",
                            "e\xCC\x81",
                            "\xCC\x88",
                            "\xC4\xB0",
                            "\xE1\x84\x80",
                            "\xE1\x85\xA1",
                            "\xE1\x86\xA8",
                            "\xE3\x84\xB1",
                            "\xE3\x85\x8F",
                            "\xEA\xB0\x80",
                            "\xE4\xB8\xAD",
                            "\xE5\x9B\xBD",
                            "\xEF\xBC\x8C",
                            "\xE3\x80\x82",
                            "\xE3\x80\x80",
                            "\xC2\xA0",
                            "\xEF\xAC\x81",
                            "\xD0\xBF\xD1\x80",
                            "\xD8\x80",
                            "\xE0\xB8\xB3",
                            "\xEF\xBE\x9E",
                            "\xE2\x80\x8D",
                            "\xF0\x9F\x98\x80",
                            "\xF0\x9F\x8F\xBD",
                            "<s>",
                            "</s>",
                            "<|endoftext|>",
                            "[MASK]",
                            "<mask>",
                            "<",
                            "[",
                            "\xE2\x96\x81",
                            "\xC4\xA0",
                            "\xFF",
                            "\xE2\x96",
                            "\xC3",
                            "``",
                            "$",
                            "^",
                            "_",
                            "K",
                            "\xE2\x84\xAA"};

constexpr std::array tokenizers{"bert",    "bert_cased",    "deepseek3", "gemma",     "gpt2",   "gpt4o",
                                "llama2",  "llama3",        "qwen2",     "roberta",   "smollm", "t5",
                                "unigram", "unigram_bytes", "word_ends", "word_level"};

std::string random_text(std::mt19937& random, std::size_t size) {
    std::string text;
    while (size-- > 0) text += pieces[random() % pieces.size()];
    return text;
}

}  // namespace

TEST_CASE("encode_in_parts: parts as short as can be have the ids of the whole, of Shakespeare and of random text") {
    auto const plays = text_of("/share/shardwise/demo/shakespeare.txt");
    std::mt19937 random(22);
    for (std::string const name : tokenizers) {
        CAPTURE(name);
        auto const tokenizer = read_tokenizer("/tests/golden/tokenizer/" + name + ".json");
        auto const some = std::string_view(plays).substr(random() % (plays.size() / 2), 6000);
        auto const parts = in_parts(tokenizer, some, 1);
        CHECK(parts.ids == *tokenizer.encode(some));
        // A unigram model that gets the text in one piece weighs all of it.
        CHECK(parts.parts > (name == "unigram" ? 0U : 400U));
        for (int i = 0; i < 300; ++i) {
            auto const text = random_text(random, 1 + random() % 40);
            CAPTURE(text);
            CHECK(in_parts(tokenizer, text, 1).ids == *tokenizer.encode(text));
        }
    }
    auto const demo = read_tokenizer("/share/shardwise/demo/tokenizer.json");
    auto const parts = in_parts(demo, std::string_view(plays).substr(0, 60000), 4096);
    CHECK(parts.ids == *demo.encode(std::string_view(plays).substr(0, 60000)));
    CHECK(parts.parts == 15);
}

TEST_CASE("encode_in_parts: wherever the first part may end at earliest, the ids are those of the whole") {
    std::mt19937 random(23);
    std::string const words =
        "  Thou art\u00e9, e\u0301 \u4e2d\u56fd\uff0c a.\n\n<s> Don't  [MASK] x\r\n ROMEO  <|endoftext|>y z ";
    for (std::string const name : tokenizers) {
        CAPTURE(name);
        auto const tokenizer = read_tokenizer("/tests/golden/tokenizer/" + name + ".json");
        for (auto const& text : {words, random_text(random, 30), std::string{}}) {
            CAPTURE(text);
            auto const whole = *tokenizer.encode(text);
            for (std::size_t at = 0; at <= text.size() + 1; ++at) CHECK(in_parts(tokenizer, text, at).ids == whole);
        }
    }
}

TEST_SUITE("long") {
    TEST_CASE("encode_in_parts: all of Shakespeare, and a hundred thousand random texts") {
        auto const plays = text_of("/share/shardwise/demo/shakespeare.txt");
        std::mt19937 random(24);
        for (std::string const name : tokenizers) {
            CAPTURE(name);
            auto const tokenizer = read_tokenizer("/tests/golden/tokenizer/" + name + ".json");
            auto const whole = *tokenizer.encode(plays);
            for (std::size_t const bytes : {std::size_t{1}, std::size_t{1} << 16U})
                CHECK(in_parts(tokenizer, plays, bytes).ids == whole);
            for (int i = 0; i < 6000; ++i) {
                auto const text = random_text(random, 1 + random() % 60);
                CAPTURE(text);
                CHECK(in_parts(tokenizer, text, 1).ids == *tokenizer.encode(text));
            }
        }
    }
}
