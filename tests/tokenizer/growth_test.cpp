// SPDX-License-Identifier: Apache-2.0
#include <shardwise/tokenizer/files/tokenizer_json.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;

namespace {

std::string const model = R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"é":2},"merges":[]})";

std::string times(std::size_t count, std::string const& text, std::string const& between = ",") {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += (i == 0 ? "" : between) + text;
    return out;
}

std::string normalizers(std::size_t count, std::string const& step) {
    return R"({"normalizer":{"type":"Sequence","normalizers":[)" + times(count, step) + "]}," + model + "}";
}

constexpr char const* doubling = R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";

/// The refusal of a tokenizer, or of what it makes of a text.
Error refusal(std::string const& json, std::string_view text = "a") {
    auto const tokenizer = parse_tokenizer_json(json, "tokenizer.json");
    if (!tokenizer) return tokenizer.error();
    auto const ids = tokenizer->encode(text);
    REQUIRE(!ids);
    return ids.error();
}

void check(Error const& error, std::string_view place) {
    INFO(error.message());
    CHECK(error.code() == ErrorCode::capacity_exceeded);
    CHECK(error.place().find(place) != std::string_view::npos);
}

}  // namespace

TEST_CASE("A step may make a text 32 times as long and 64 Ki more") {
    CHECK(max_grown_size(0) == 65536);
    CHECK(max_grown_size(1) == 65568);
    CHECK(max_grown_size(SIZE_MAX / 32) == SIZE_MAX);
    CHECK(max_grown_size(SIZE_MAX) == SIZE_MAX);
}

TEST_CASE("Chained replacements stop where the text becomes too long, and name the one that does it") {
    // 2^16 a are within the limit for one a, 2^17 are not.
    auto const most = parse_tokenizer_json(normalizers(16, doubling), "tokenizer.json");
    REQUIRE(most);
    CHECK(most->encode("a")->size() == 65536);
    check(refusal(normalizers(17, doubling)), "normalizer step 17, Replace");
    check(refusal(normalizers(40, doubling)), "normalizer step 17, Replace");
    // Twice as much text may become twice as long, no longer.
    check(refusal(normalizers(40, doubling), std::string(1000, 'a')), "normalizer step 7, Replace");
    // The one step that makes too much stops within.
    auto const large = R"({"type":"Replace","pattern":{"String":"a"},"content":")" + std::string(100'000, 'a') + R"("})";
    check(refusal(normalizers(1, large), std::string(100'000, 'a')), "normalizer step 1, Replace");
    // An empty pattern matches everywhere.
    auto const everywhere = R"({"type":"Replace","pattern":{"Regex":"b*"},"content":")" + std::string(1000, 'a') + R"("})";
    check(refusal(normalizers(3, everywhere)), "normalizer step 2, Replace");
}

TEST_CASE("No other normalizer or pre-tokenizer makes a text too long") {
    auto const prepend = R"({"type":"Prepend","prepend":")" + std::string(20'000, 'a') + R"("})";
    check(refusal(normalizers(4, prepend)), "normalizer step 4, Prepend");
    check(refusal(normalizers(40, R"({"type":"ByteLevel"})"), "é"), "normalizer step 17, ByteLevel");
    check(refusal(R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[)" +
                      times(40, R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})") + "]}," + model +
                      "}",
                  "é"),
          "pre_tokenizer step 17, ByteLevel");
    // The form that expands most stays within: 18 code points of one.
    auto const form = parse_tokenizer_json(normalizers(1, R"({"type":"NFKD"})"), "tokenizer.json");
    REQUIRE(form);
    CHECK(form->encode(times(20'000, "\xEF\xB7\xBA", "")));
}

TEST_CASE("A tokenizer with too many steps is refused as it is read, with the step") {
    check(refusal(normalizers(129, doubling)), "tokenizer.normalizer.normalizers[128]");
    check(refusal(R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[)" +
                  times(129, R"({"type":"Split","pattern":{"Regex":"(a{1000}){10}"},"behavior":"Isolated"})") + "]}," +
                  model + "}"),
          "pretokenizers[128]");
    check(refusal(R"({"decoder":{"type":"Sequence","decoders":[)" + times(129, R"({"type":"Fuse"})") + "]}," + model + "}"),
          "decoders[128]");
}

TEST_CASE("Added tokens are normalized within one limit for all of them, and may not be long") {
    std::string list;
    for (int i = 0; i < 200; ++i) {
        list += (i == 0 ? "" : ",") + std::string(R"({"id":)") + std::to_string(i + 10) +
                R"(,"content":"a","normalized":true})";
    }
    // 2^12 for each of 200 tokens of one letter: more than 32 * 200 + 65536 together.
    check(refusal(R"({"added_tokens":[)" + list + R"(],"normalizer":{"type":"Sequence","normalizers":[)" +
                  times(12, doubling) + "]}," + model + "}"),
          "normalizer step");
    check(refusal(R"({"added_tokens":[{"id":7,"content":")" + std::string(1025, 'x') + R"("}],)" + model + "}"),
          "added_tokens[0].content");
    check(refusal(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[],"continuing_subword_prefix":")" +
                  std::string(257, '#') + R"("}})"),
          "model.continuing_subword_prefix");
}

TEST_CASE("Many added tokens with one beginning are found, at each place the longest") {
    std::string list;
    for (int i = 1; i <= 1000; ++i) {
        list += (i == 1 ? "" : ",") + std::string(R"({"id":)") + std::to_string(i + 10) + R"(,"content":")" +
                std::string(static_cast<std::size_t>(i), 'a') + R"(","special":true})";
    }
    auto const tokenizer = parse_tokenizer_json(R"({"added_tokens":[)" + list + "]," + model + "}", "tokenizer.json");
    REQUIRE(tokenizer);
    CHECK(tokenizer->encode(std::string(1000, 'a')).value() == std::vector<TokenId>{1010});
    CHECK(tokenizer->encode(std::string(2500, 'a') + "b").value() == std::vector<TokenId>{1010, 1010, 510, 1});
}

TEST_CASE("A template that multiplies its ids is refused") {
    std::string const special = R"("special_tokens":{"x":{"id":"x","ids":[)" + times(1000, "0") + "]}}";
    auto const around = [&](std::size_t count) {
        return R"({"post_processor":{"type":"TemplateProcessing","single":[)" +
               times(count, R"({"SpecialToken":{"id":"x"}})") + R"(,{"Sequence":{"id":"A"}}],)" + special + "}," + model +
               "}";
    };
    auto const most = parse_tokenizer_json(around(4), "tokenizer.json");
    REQUIRE(most);
    CHECK(most->encode("a")->size() == 4001);
    check(refusal(around(5)), "tokenizer.post_processor.single");
    auto const step = R"({"type":"TemplateProcessing","single":[)" + times(4, R"({"SpecialToken":{"id":"x"}})") +
                      R"(,{"Sequence":{"id":"A"}}],)" + special + "}";
    check(refusal(R"({"post_processor":{"type":"Sequence","processors":[)" + times(3, step) + "]}," + model + "}"),
          "tokenizer.post_processor");
}

TEST_CASE("A decoder that makes the text too long is refused, with the step") {
    auto const decoders = [&](std::size_t count, std::string const& step) {
        return parse_tokenizer_json(
            R"({"decoder":{"type":"Sequence","decoders":[)" + times(count, step) + "]}," + model + "}", "tokenizer.json");
    };
    auto const most = decoders(16, doubling);
    REQUIRE(most);
    CHECK(most->decode(std::vector<TokenId>{0})->size() == 65536);
    auto const chained = decoders(40, doubling);
    REQUIRE(chained);
    auto const text = chained->decode(std::vector<TokenId>{0});
    REQUIRE(!text);
    check(text.error(), "decoder step 17, Replace");
    // All tokens count together.
    auto const several = chained->decode(std::vector<TokenId>(1000, 0));
    REQUIRE(!several);
    check(several.error(), "decoder step 7, Replace");
    auto const pattern = decoders(40, R"({"type":"Replace","pattern":{"Regex":"a"},"content":"aa"})");
    REQUIRE(pattern);
    auto const matched = pattern->decode(std::vector<TokenId>{0});
    REQUIRE(!matched);
    check(matched.error(), "decoder step 17, Replace");
}

TEST_CASE("Strip takes many characters off a long token") {
    auto const tokenizer = parse_tokenizer_json(
        R"({"decoder":{"type":"Sequence","decoders":[{"type":"Fuse"},)"
        R"({"type":"Strip","content":"a","start":100000,"stop":2}]},)" +
            model + "}",
        "tokenizer.json");
    REQUIRE(tokenizer);
    CHECK(tokenizer->decode(std::vector<TokenId>(100'010, 0))->size() == 8);
}
