// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/tokenizer/files/tokenizer_json.hpp>
#include <shardwise/tokenizer/streaming_decoder.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;

namespace {

std::string golden_file(std::string const& name) {
    auto const text = read_text_file(SHARDWISE_SOURCE_DIR "/tests/golden/tokenizer/" + name, std::size_t{1} << 20U);
    REQUIRE(text);
    return *text;
}

/// CRC-32 as zlib computes it.
std::uint32_t checksum(std::string_view text) {
    std::uint32_t value = ~std::uint32_t{0};
    for (auto const byte : text) {
        value ^= static_cast<unsigned char>(byte);
        for (int bit = 0; bit < 8; ++bit) value = value >> 1U ^ (0xEDB88320U & (0U - (value & 1U)));
    }
    return ~value;
}

std::string listed(std::vector<TokenId> const& ids) {
    std::string out;
    for (auto const id : ids) out += (out.empty() ? "" : " ") + std::to_string(id);
    return out;
}

std::vector<std::string> golden_texts() {
    auto const document = parse_json(golden_file("texts.json"));
    REQUIRE(document);
    std::vector<std::string> texts;
    for (auto const value : document->root()) texts.emplace_back(value.string().value_or(""));
    return texts;
}

std::string streamed(Tokenizer const& tokenizer, std::vector<TokenId> const& ids) {
    StreamingDecoder decoder(tokenizer);
    std::string out;
    for (auto const id : ids) {
        auto const part = decoder.push(id);
        REQUIRE(part);
        CHECK(to_valid_utf8(*part) == *part);
        out += *part;
    }
    return out + decoder.finish();
}

Result<Tokenizer> parsed(std::string_view json) {
    return parse_tokenizer_json(json, "tokenizer.json");
}

std::string const small_bpe =
    R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<unk>":3},"merges":[["a","b"]],"unk_token":"<unk>"})";

}  // namespace

TEST_CASE("A tokenizer.json of every kind gives the ids and texts of PyPI tokenizers") {
    auto const texts = golden_texts();
    REQUIRE(texts.size() > 50);
    std::istringstream answers(golden_file("answers.txt"));
    std::map<std::string, Tokenizer> tokenizers;
    std::string name;
    std::size_t count = 0;
    std::size_t lines = 0;
    while (answers >> name >> count) {
        auto const& text = texts[lines++ % texts.size()];
        std::uint32_t ids_sum = 0;
        std::uint32_t plain_sum = 0;
        std::uint32_t special_sum = 0;
        answers >> std::hex >> ids_sum >> plain_sum >> special_sum >> std::dec;
        if (!tokenizers.contains(name)) {
            auto tokenizer = parse_tokenizer_json(golden_file(name + ".json"), name);
            if (!tokenizer) FAIL(tokenizer.error().message());
            tokenizers.emplace(name, *tokenizer);
        }
        auto const& tokenizer = tokenizers.at(name);
        auto const ids = tokenizer.encode(text);
        REQUIRE(ids);
        INFO(name, ": ", text, " -> ", listed(*ids));
        CHECK(ids->size() == count);
        CHECK(checksum(listed(*ids)) == ids_sum);
        auto const plain = tokenizer.decode(*ids);
        REQUIRE(plain);
        CHECK(checksum(*plain) == plain_sum);
        auto const special = tokenizer.decode(*ids, false);
        REQUIRE(special);
        CHECK(checksum(*special) == special_sum);
        CHECK(streamed(tokenizer, *ids) == *plain);
    }
    CHECK(tokenizers.size() == 16);
    CHECK(lines == 16 * texts.size());
}

TEST_CASE("A table of characters that is cut, or is none, is refused; what it says beyond itself reads nothing") {
    for (auto const* const table : {"", "AAAA", "/////w==", "A=A", "CAAAAAAA"}) {
        auto const made = parsed(R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":")" +
                                 std::string(table) + "\"}," + small_bpe + "}");
        CAPTURE(table);
        REQUIRE(!made);
        CHECK(made.error().message().find("precompiled_charsmap") != std::string::npos);
    }
    // A trie of one unit whose offset leads out of it.
    auto const beyond =
        parsed(R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":"BAAAAP////8="},)" + small_bpe + "}");
    REQUIRE(beyond);
    CHECK(beyond->encode("ab").value() == parsed("{" + small_bpe + "}")->encode("ab").value());
}

TEST_CASE("What a tokenizer.json has that is not supported is named with its place") {
    auto const message = [](std::string const& json) {
        auto const tokenizer = parsed(json);
        REQUIRE(!tokenizer);
        CHECK(tokenizer.error().code() == ErrorCode::unsupported);
        return tokenizer.error().message();
    };
    auto const normalizer = message(R"({"normalizer":{"type":"Nmt"},)" + small_bpe + "}");
    CHECK(normalizer.find("tokenizer.normalizer") != std::string::npos);
    CHECK(normalizer.find("Nmt") != std::string::npos);
    auto const nested = message(
        R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"UnicodeScripts"}]},)" +
        small_bpe + "}");
    CHECK(nested.find("tokenizer.pre_tokenizer.pretokenizers[1]") != std::string::npos);
    CHECK(nested.find("UnicodeScripts") != std::string::npos);
    auto const pattern =
        message(R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\p{Han}+"},"behavior":"Isolated"},)" +
                small_bpe + "}");
    CHECK(pattern.find("\\p{Han}+") != std::string::npos);
    CHECK(message(R"({"decoder":{"type":"CTC"},)" + small_bpe + "}").find("CTC") != std::string::npos);
    CHECK(message(R"({"model":{"type":"BPE","dropout":0.1,"vocab":{},"merges":[]}})").find("dropout") !=
          std::string::npos);
}

TEST_CASE("A broken tokenizer.json is refused with the place") {
    auto const refused = [](std::string const& json, ErrorCode code, std::string_view part) {
        auto const tokenizer = parsed(json);
        REQUIRE(!tokenizer);
        INFO(tokenizer.error().message());
        CHECK(tokenizer.error().code() == code);
        CHECK(tokenizer.error().message().find(part) != std::string::npos);
        CHECK(tokenizer.error().subject() == "tokenizer.json");
    };
    refused("{", ErrorCode::malformed_file, "ends early");
    refused("{}", ErrorCode::missing_field, "tokenizer.model");
    refused("[]", ErrorCode::missing_field, "tokenizer.model");
    refused(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}})", ErrorCode::invalid_field, "b");
    refused(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["ab"]}})", ErrorCode::invalid_field, "merges");
    refused(R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})", ErrorCode::invalid_field, "another token");
    refused(R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})", ErrorCode::invalid_field, "vocab.a");
    refused(R"({"model":{"type":"BPE","vocab":{"a":16777216},"merges":[]}})", ErrorCode::invalid_field, "vocab.a");
    refused(R"({"model":{"type":"Unigram","vocab":[["a"]]}})", ErrorCode::invalid_field, "vocab");
    refused(R"({"model":{"type":"Unigram","unk_id":5,"vocab":[["a",0.5]]}})", ErrorCode::invalid_field, "unk_id");
    refused(R"({"model":{"type":"WordPiece","vocab":{"a":0}}})", ErrorCode::invalid_field, "unk_token");
    refused(R"({"added_tokens":[{"content":"x"}],)" + small_bpe + "}", ErrorCode::missing_field, "added_tokens[0].id");
    refused(
        R"({"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],)"
        R"("special_tokens":{}},)" +
            small_bpe + "}",
        ErrorCode::missing_field, "single[0].SpecialToken.id");
    std::string deep = R"({"type":"NFC"})";
    for (int i = 0; i < 20; ++i) deep = R"({"type":"Sequence","normalizers":[)" + deep + "]}";
    refused(R"({"normalizer":)" + deep + "," + small_bpe + "}", ErrorCode::capacity_exceeded, "nested too deep");
}

TEST_CASE("A tokenizer tells tokens, their ids, and which are special") {
    auto const tokenizer = parsed(R"({"added_tokens":[{"id":7,"content":"<end>","special":true}],)" + small_bpe + "}");
    REQUIRE(tokenizer);
    CHECK(tokenizer->size() == 8);
    CHECK(tokenizer->token(2) == "ab");
    CHECK(tokenizer->token(7) == "<end>");
    CHECK(tokenizer->is_special(7));
    CHECK(!tokenizer->is_special(2));
    CHECK(tokenizer->id_of("<end>") == 7);
    CHECK(tokenizer->id_of("ab") == 2);
    CHECK(!tokenizer->token(5));
    CHECK(!tokenizer->token(-1));
    CHECK(!tokenizer->id_of("c"));
    std::vector<TokenId> const ids{2, 7, 0};
    CHECK(tokenizer->decode(ids).value() == "ab a");
    CHECK(tokenizer->decode(ids, false).value() == "ab <end> a");
    for (TokenId const wrong : {-1, 5, 8, 1 << 30}) {
        auto const text = tokenizer->decode(std::vector<TokenId>{wrong});
        REQUIRE(!text);
        CHECK(text.error().code() == ErrorCode::invalid_argument);
    }
    EncodeOptions as_text;
    as_text.finds_special = false;
    CHECK(tokenizer->encode("ab<end>", as_text).value() == std::vector<TokenId>{2, 3, 3, 3, 3, 3});
    CHECK(tokenizer->encode("ab<end>").value() == std::vector<TokenId>{2, 7});
}
