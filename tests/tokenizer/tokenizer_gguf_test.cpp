// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/gguf.hpp>
#include <shardwise/tokenizer/files/tokenizer_gguf.hpp>
#include <shardwise/tokenizer/files/tokenizer_json.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;

namespace {

/// Writes the metadata of a GGUF file without tensors.
class GgufBytes {
public:
    template <class Number>
    static std::string raw(Number number) {
        std::string out(sizeof(Number), '\0');
        std::memcpy(out.data(), &number, sizeof(Number));
        return out;
    }
    static std::string text(std::string_view value) { return raw(std::uint64_t{value.size()}) + std::string(value); }

    void key(std::string_view name, GgufValueType type, std::string const& value) {
        keys_ += text(name) + raw(static_cast<std::uint32_t>(type)) + value;
        ++count_;
    }
    void add(std::string_view name, std::string_view value) { key(name, GgufValueType::text, text(value)); }
    void add(std::string_view name, std::uint32_t value) { key(name, GgufValueType::u32, raw(value)); }
    void add_flag(std::string_view name, bool value) { key(name, GgufValueType::boolean, raw(std::uint8_t{value})); }
    void add_texts(std::string_view name, std::vector<std::string> const& values) {
        std::string list = raw(static_cast<std::uint32_t>(GgufValueType::text)) + raw(std::uint64_t{values.size()});
        for (auto const& value : values) list += text(value);
        key(name, GgufValueType::array, list);
    }
    template <class Number>
    void add_numbers(std::string_view name, GgufValueType type, std::vector<Number> const& values) {
        std::string list = raw(static_cast<std::uint32_t>(type)) + raw(std::uint64_t{values.size()});
        for (auto const value : values) list += raw(value);
        key(name, GgufValueType::array, list);
    }
    [[nodiscard]] std::string bytes() const {
        return "GGUF" + raw(std::uint32_t{3}) + raw(std::uint64_t{0}) + raw(count_) + keys_;
    }

private:
    std::string keys_;
    std::uint64_t count_ = 0;
};

std::string golden_file(std::string const& name) {
    auto const text = read_text_file(SHARDWISE_SOURCE_DIR "/tests/golden/tokenizer/" + name, std::size_t{1} << 20U);
    REQUIRE(text);
    return *text;
}

Result<Tokenizer> read(GgufBytes const& file) {
    auto const bytes = file.bytes();
    auto const header = parse_gguf(bytes, "model.gguf");
    if (!header) return header.error();
    return read_gguf_tokenizer(header->metadata, "model.gguf");
}

std::uint32_t checksum(std::vector<TokenId> const& ids) {
    std::string text;
    for (auto const id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
    std::uint32_t value = ~std::uint32_t{0};
    for (auto const byte : text) {
        value ^= static_cast<unsigned char>(byte);
        for (int bit = 0; bit < 8; ++bit) value = value >> 1U ^ (0xEDB88320U & (0U - (value & 1U)));
    }
    return ~value;
}

/// The vocabulary of gpt2.json with what scripts/golden/tokenizers_gguf.py adds.
GgufBytes byte_level(std::string_view pre) {
    auto const document = parse_json(golden_file("gpt2.json"));
    REQUIRE(document);
    auto const model = document->root().find("model");

    auto const vocabulary = model->find("vocab").value();
    std::vector<std::string> tokens(vocabulary.size());
    for (auto const token : vocabulary) tokens[static_cast<std::size_t>(*token.integer())] = token.key();
    std::vector<std::int32_t> types(tokens.size(), 1);
    types[0] = 3;
    for (auto const* const added : {"<s>", "</s>", "<tool>"}) {
        tokens.emplace_back(added);
        types.push_back(std::string_view(added) == "<tool>" ? 4 : 3);
    }
    std::vector<std::string> merges;
    auto const list = model->find("merges").value();
    for (auto const merge : list) {
        std::string both;
        for (auto const part : merge) both += (both.empty() ? "" : " ") + std::string(part.string().value_or(""));
        merges.push_back(both);
    }
    GgufBytes file;
    file.add("tokenizer.ggml.model", "gpt2");
    file.add("tokenizer.ggml.pre", pre);
    file.add_texts("tokenizer.ggml.tokens", tokens);
    file.add_numbers("tokenizer.ggml.token_type", GgufValueType::i32, types);
    file.add_texts("tokenizer.ggml.merges", merges);
    file.add("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(tokens.size() - 3));
    file.add("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(tokens.size() - 2));
    return file;
}

/// The vocabulary of bert.json as llama.cpp's conversion/bert.py writes it: U+2581 before what begins a word, nothing
/// before what continues one.
GgufBytes word_pieces(std::string const& name = "bert.json") {
    auto const document = parse_json(golden_file(name));
    REQUIRE(document);
    auto const vocabulary = document->root().find("model")->find("vocab").value();
    std::vector<std::string> tokens(vocabulary.size());
    std::vector<std::int32_t> types(tokens.size(), 1);
    for (auto const token : vocabulary) {
        auto const id = static_cast<std::size_t>(*token.integer());
        std::string const text(token.key());
        types[id] = id < 5 ? 3 : 1;
        tokens[id] = id < 5 ? text : text.starts_with("##") ? text.substr(2) : "\xE2\x96\x81" + text;
    }
    GgufBytes file;
    file.add("tokenizer.ggml.model", "bert");
    file.add_texts("tokenizer.ggml.tokens", tokens);
    file.add_numbers("tokenizer.ggml.token_type", GgufValueType::i32, types);
    file.add("tokenizer.ggml.unknown_token_id", 1U);
    file.add("tokenizer.ggml.cls_token_id", 2U);
    file.add("tokenizer.ggml.seperator_token_id", 3U);
    return file;
}

GgufBytes scored() {
    auto const document = parse_json(golden_file("spm.json"));
    REQUIRE(document);
    std::vector<std::string> tokens;
    std::vector<float> scores;
    std::vector<std::int32_t> types;
    for (auto const row : document->root()) {
        auto value = row.begin();
        tokens.emplace_back((*value).string().value_or(""));
        ++value;
        scores.push_back(static_cast<float>((*value).real().value_or(0.0)));
        ++value;
        types.push_back(static_cast<std::int32_t>((*value).integer().value_or(0)));
    }
    GgufBytes file;
    file.add("tokenizer.ggml.model", "llama");
    file.add_texts("tokenizer.ggml.tokens", tokens);
    file.add_numbers("tokenizer.ggml.scores", GgufValueType::f32, scores);
    file.add_numbers("tokenizer.ggml.token_type", GgufValueType::i32, types);
    return file;
}

}  // namespace

TEST_CASE("The vocabulary of a GGUF file gives the ids of llama.cpp") {
    auto const document = parse_json(golden_file("texts.json"));
    REQUIRE(document);
    std::vector<std::string> texts;
    for (auto const value : document->root()) {
        texts.emplace_back(value.string().value_or(""));
        std::erase_if(texts.back(),
                      [](char byte) { return byte == 1 || byte == 2; });  // what ends a text for the script
    }
    std::istringstream answers(golden_file("gguf_answers.txt"));
    std::string name;
    std::vector<Tokenizer> current;
    std::size_t lines = 0;
    std::uint32_t sum = 0;
    while (answers >> name >> std::hex >> sum) {
        auto const& text = texts[lines % texts.size()];
        if (lines++ % texts.size() == 0) {
            auto file = name.starts_with("spm") ? scored() : byte_level(name);
            if (name == "spm_plain") {
                file.add_flag("tokenizer.ggml.add_space_prefix", false);
                file.add_flag("tokenizer.ggml.add_bos_token", false);
                file.add_flag("tokenizer.ggml.add_eos_token", true);
            }
            auto const tokenizer = read(file);
            if (!tokenizer) FAIL(tokenizer.error().message());
            current.assign(1, *tokenizer);
        }
        auto const ids = current[0].encode(text);
        REQUIRE(ids);
        INFO(name, ": ", text);
        CHECK(checksum(*ids) == sum);
        // A control token leaves with the decoding; what a vocabulary of bytes holds comes back.
        bool const is_plain = std::none_of(ids->begin() + (current[0].parts().before.empty() ? 0 : 1), ids->end(),
                                           [&](TokenId id) { return current[0].is_special(id); });
        auto const decoded = current[0].decode(*ids);
        REQUIRE(decoded);
        if (is_plain && !name.starts_with("spm")) CHECK(*decoded == text);
    }
    CHECK(lines == 14 * texts.size());
}

TEST_CASE("The WordPiece vocabulary of a GGUF file gives the ids of the tokenizer.json it was made from") {
    auto const document = parse_json(golden_file("texts.json"));
    REQUIRE(document);
    std::vector<std::string> texts;
    for (auto const value : document->root()) texts.emplace_back(value.string().value_or(""));
    texts.emplace_back("x [MASK] y [CLS]");
    auto const agree = [&](GgufBytes const& file, std::string const& json) {
        auto const made = read(file);
        if (!made) FAIL(made.error().message());
        auto const original = parse_tokenizer_json(golden_file(json), json);
        REQUIRE(original);
        for (auto const& text : texts) {
            INFO(json, ": ", text);
            auto const ids = made->encode(text);
            REQUIRE(ids);
            CHECK(*ids == original->encode(text).value());
            CHECK(made->decode(*ids).value() == original->decode(*ids).value());
        }
    };
    agree(word_pieces(), "bert.json");
    // Lower case is what a file without the key means; bert_cased.json leaves Chinese characters together, which no file says.
    auto cased = word_pieces("bert_cased.json");
    cased.add_flag("tokenizer.ggml.normalizer.lowercase", false);
    std::erase_if(texts, [](std::string const& text) { return text.find("\xE4\xBD\xA0") != std::string::npos ||
                                                             text.find("\xE4\xB8\x96") != std::string::npos ||
                                                             text.find("\xE6\x97\xA5") != std::string::npos; });
    agree(cased, "bert_cased.json");
}

TEST_CASE("The unigram model of a GGUF file gives the ids of the tokenizer.json it was made from") {
    auto const document = parse_json(golden_file("texts.json"));
    auto const original = parse_json(golden_file("t5.json"));
    REQUIRE(document);
    REQUIRE(original);
    std::vector<std::string> tokens;
    std::vector<float> scores;
    std::vector<std::int32_t> types;
    auto const vocabulary = *original->root().find("model")->find("vocab");
    for (auto const pair : vocabulary) {
        for (auto const part : pair) {
            if (part.is_string()) tokens.emplace_back(*part.string());
            if (part.is_number()) scores.push_back(static_cast<float>(*part.real()));
        }
        types.push_back(tokens.size() == 3 ? 2 : tokens.size() < 3 ? 3 : 1);
    }
    // What fills the vocabulary up counts for nothing.
    tokens.emplace_back("[PAD1]");
    scores.push_back(-10000.0F);
    types.push_back(5);
    auto const table =
        detail::read_base64(*original->root().find("normalizer")->find("precompiled_charsmap")->string());
    REQUIRE(table);
    GgufBytes file;
    file.add("tokenizer.ggml.model", "t5");
    file.add_texts("tokenizer.ggml.tokens", tokens);
    file.add_numbers("tokenizer.ggml.scores", GgufValueType::f32, scores);
    file.add_numbers("tokenizer.ggml.token_type", GgufValueType::i32, types);
    file.add_numbers("tokenizer.ggml.precompiled_charsmap", GgufValueType::u8,
                     std::vector<std::uint8_t>(table->begin(), table->end()));
    file.add("tokenizer.ggml.eos_token_id", 1U);
    file.add_flag("tokenizer.ggml.add_eos_token", true);
    auto const made = read(file);
    if (!made) FAIL(made.error().message());
    auto const json = parse_tokenizer_json(golden_file("t5.json"), "t5.json");
    REQUIRE(json);
    for (auto const value : document->root()) {
        auto const text = std::string(value.string().value_or(""));
        INFO(text);
        auto const ids = made->encode(text);
        REQUIRE(ids);
        CHECK(*ids == json->encode(text).value());
        CHECK(made->decode(*ids).value() == json->decode(*ids).value());
    }
    file.add_flag("tokenizer.ggml.add_space_prefix", false);
    auto const refused = read(file);
    REQUIRE(!refused);
    CHECK(refused.error().place() == "tokenizer.ggml.add_space_prefix");
}

TEST_CASE("What stands around a text is what the keys of a BERT file say") {
    auto const ids_of = [](GgufBytes const& file) {
        auto const tokenizer = read(file);
        if (!tokenizer) FAIL(tokenizer.error().message());
        return tokenizer->encode("").value();
    };
    CHECK(ids_of(word_pieces()) == std::vector<TokenId>{2, 3});
    auto bare = word_pieces();
    bare.add_flag("tokenizer.ggml.add_bos_token", false);
    bare.add_flag("tokenizer.ggml.add_sep_token", false);
    CHECK(ids_of(bare).empty());
    // The converter says of a template "[CLS] text [SEP]" whose pair lacks a separator: no sep, but an end.
    auto ends = word_pieces();
    ends.add_flag("tokenizer.ggml.add_sep_token", false);
    ends.add_flag("tokenizer.ggml.add_eos_token", true);
    ends.add("tokenizer.ggml.bos_token_id", 4U);
    CHECK(ids_of(ends) == std::vector<TokenId>{4, 3});
    auto wrong = word_pieces();
    wrong.add("tokenizer.ggml.bos_token_id", 70'000U);
    auto const refused = read(wrong);
    REQUIRE(!refused);
    CHECK(refused.error().place() == "tokenizer.ggml.bos_token_id");
}

TEST_CASE("SentencePiece text comes back without the space that was put before it") {
    auto const tokenizer = read(scored());
    REQUIRE(tokenizer);
    for (auto const* const text : {"Hello world", " two", "日本語 \xF0\x9F\x98\x80", "a\nb", "", " "}) {
        auto const ids = tokenizer->encode(text);
        REQUIRE(ids);
        CHECK(ids->front() == 1);
        CHECK(tokenizer->decode(*ids).value() == text);
    }
    CHECK(tokenizer->begin_of_sequence() == 1);
    CHECK(tokenizer->end_of_sequence() == 2);
}

TEST_CASE("A GGUF vocabulary that cannot be used is refused with its key") {
    auto const refused = [](GgufBytes const& file, ErrorCode code, std::string_view key, std::string_view part) {
        auto const tokenizer = read(file);
        REQUIRE(!tokenizer);
        INFO(tokenizer.error().message());
        CHECK(tokenizer.error().code() == code);
        CHECK(tokenizer.error().place() == key);
        CHECK(tokenizer.error().message().find(part) != std::string::npos);
        CHECK(tokenizer.error().subject() == "model.gguf");
    };
    refused({}, ErrorCode::missing_field, "tokenizer.ggml.model", "no tokenizer");
    GgufBytes other;
    other.add("tokenizer.ggml.model", "rwkv");
    refused(other, ErrorCode::unsupported, "tokenizer.ggml.model", "rwkv");
    GgufBytes pre;
    pre.add("tokenizer.ggml.model", "gpt2");
    pre.add("tokenizer.ggml.pre", "martian");
    refused(pre, ErrorCode::unsupported, "tokenizer.ggml.pre", "martian");
    GgufBytes none;
    none.add("tokenizer.ggml.model", "gpt2");
    refused(none, ErrorCode::missing_field, "tokenizer.ggml.tokens", "missing");
    none.add_numbers("tokenizer.ggml.tokens", GgufValueType::i32, std::vector<std::int32_t>{1, 2});
    refused(none, ErrorCode::invalid_field, "tokenizer.ggml.tokens", "list of texts");
    GgufBytes merges;
    merges.add("tokenizer.ggml.model", "gpt2");
    merges.add_texts("tokenizer.ggml.tokens", {"a", "b"});
    merges.add_texts("tokenizer.ggml.merges", {"a b"});
    refused(merges, ErrorCode::invalid_field, "ab", "no token");
    GgufBytes scores;
    scores.add("tokenizer.ggml.model", "llama");
    scores.add_texts("tokenizer.ggml.tokens", {"a", "b"});
    scores.add_numbers("tokenizer.ggml.scores", GgufValueType::f32, std::vector<float>{1.0F});
    refused(scores, ErrorCode::invalid_field, "tokenizer.ggml.scores", "one for each token");
    GgufBytes begin;
    begin.add("tokenizer.ggml.model", "gpt2");
    begin.add_texts("tokenizer.ggml.tokens", {"a", "b"});
    begin.add_texts("tokenizer.ggml.merges", {});
    begin.add_flag("tokenizer.ggml.add_bos_token", true);
    begin.add("tokenizer.ggml.bos_token_id", 2U);
    refused(begin, ErrorCode::invalid_field, "tokenizer.ggml.bos_token_id", "no token");
}

TEST_CASE("Each pre-tokenizer that is known has patterns that compile") {
    for (auto const* const name : {"default", "gpt-2", "smollm", "llama-bpe", "glm4", "dbrx", "qwen2", "qwen35", "gpt-4o",
                                   "tekken", "deepseek-v3", "deepseek-llm", "deepseek-coder", "falcon"}) {
        auto const pre = gguf_pre_tokenizer(name);
        REQUIRE(pre);
        for (auto const pattern : pre->patterns) CHECK(parse_pattern(pattern));
    }
}
