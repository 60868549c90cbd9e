// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/tokenizer/files/json_steps.hpp>
#include <shardwise/tokenizer/unicode.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace shardwise;

namespace {

/// CRC-32 as zlib computes it, a table's step for each byte.
class Checksum {
public:
    void add(std::string_view bytes) {
        for (auto const byte : bytes) {
            value_ = table()[(value_ ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ value_ >> 8U;
        }
    }
    [[nodiscard]] std::uint32_t value() const { return ~value_; }

private:
    static std::array<std::uint32_t, 256> const& table() {
        static auto const made = [] {
            std::array<std::uint32_t, 256> steps{};
            for (std::uint32_t byte = 0; byte < 256; ++byte) {
                steps[byte] = byte;
                for (int bit = 0; bit < 8; ++bit) {
                    steps[byte] = steps[byte] >> 1U ^ (0xEDB88320U & (0U - (steps[byte] & 1U)));
                }
            }
            return steps;
        }();
        return made;
    }
    std::uint32_t value_ = ~std::uint32_t{0};
};

bool is_code_point(char32_t code) {
    return code < 0xD800 || code >= 0xE000;
}

/// The code points from `first`, 4096 of them, each between `before` and `after`.
std::u32string block_of(char32_t first, std::u32string_view before, std::u32string_view after) {
    std::u32string text;
    for (auto code = first; code < first + 4096; ++code) {
        if (is_code_point(code)) ((text += before) += code) += after;
    }
    return text;
}

/// What a line of unicode.txt describes, of one plane.
class PlaneOf {
public:
    PlaneOf(std::string_view kind, JsonValue const& step) : kind_(kind) {
        detail::JsonPart const part(step, "step", errors_);
        if (kind == "splitter") detail::read_splitter(part, splitter_);
        if (kind != "splitter" && kind != "categories") detail::read_normalizer(part, normalizer_);
        marks_ = to_code_points(part.text("marks", ""));
        CHECK(!errors_.has_error());
    }

    std::uint32_t checksum(char32_t first) const {
        Checksum sum;
        if (kind_ == "categories") {
            std::string bytes;
            for (auto code = first; code < first + 0x10000; ++code) bytes += static_cast<char>(category_of(code));
            sum.add(bytes);
            return sum.value();
        }
        for (auto at = first; at < first + 0x10000; at += 4096) {
            if (kind_ == "normalizer") add_normalized(sum, block_of(at, U"", U""));
            if (kind_ == "marks") add_normalized(sum, block_of(at, U"a\u0345", U"\u0334"));
            if (kind_ == "splitter") add_pieces(sum, block_of(at, U"a", U""));
            for (auto code = at; kind_ == "classes" && code < at + 4096; ++code) {
                if (combining_class(code) != 0) add_normalized(sum, code + marks_);
            }
        }
        return sum.value();
    }

private:
    void add_normalized(Checksum& sum, std::u32string text) const {
        auto const limit = max_grown_size(text.size());
        TextPiece piece{std::move(text), 1};
        REQUIRE(normalize_text(normalizer_, piece, limit));
        sum.add(to_utf8(piece.text));
    }
    void add_pieces(Checksum& sum, std::u32string text) const {
        std::vector<TextPiece> pieces;
        if (!text.empty()) pieces.push_back({std::move(text), 1});
        for (auto const& step : splitter_) REQUIRE(split_pieces(step, pieces));
        std::string joined;
        for (auto const& piece : pieces) (joined += to_utf8(piece.text)) += '|';
        sum.add(joined);
    }

    std::string kind_;
    detail::FirstError errors_;
    std::vector<NormalizeStep> normalizer_;
    std::vector<SplitStep> splitter_;
    std::u32string marks_;
};

}  // namespace

TEST_SUITE("large") {
    TEST_CASE("Each of the 1.1 million code points is to us what it is to PyPI tokenizers, step by step") {
        auto const golden =
            read_text_file(SHARDWISE_SOURCE_DIR "/tests/golden/tokenizer/unicode.txt", std::size_t{1} << 16U);
        REQUIRE(golden);
        std::istringstream lines(*golden);
        std::string line;
        int count = 0;
        while (std::getline(lines, line)) {
            ++count;
            std::istringstream fields(line);
            std::string kind;
            fields >> kind;
            std::array<std::uint32_t, 17> sums{};
            for (auto& sum : sums) fields >> std::hex >> sum;
            std::string json;
            std::getline(fields, json);
            auto const step = parse_json(json);
            REQUIRE(step);
            PlaneOf const plane(kind, step->root());
            for (std::size_t i = 0; i < sums.size(); ++i) {
                INFO(kind, json, ", plane ", i);
                CHECK(plane.checksum(static_cast<char32_t>(i * 0x10000)) == sums[i]);
            }
        }
        CHECK(count == 22);
    }
}

TEST_CASE("A word character of a pattern is not quite one of the rest of tokenizers") {
    int more = 0;
    int fewer = 0;
    for (char32_t code = 0; code < 0x3000; ++code) {
        more += is_pattern_word_character(code) && !is_word_character(code) ? 1 : 0;
        fewer += is_word_character(code) && !is_pattern_word_character(code) ? 1 : 0;
    }
    CHECK(more == 6);   // the superscripts and fractions of Latin-1
    CHECK(fewer == 2);  // the joiners
    CHECK(is_pattern_word_character(U'\u00B2'));
    CHECK(!is_word_character(U'\u00B2'));
}

TEST_CASE("Numbers are those of Unicode 17, marks and punctuation older ones") {
    CHECK(is_number(char32_t{0x11DE0}));
    CHECK(!is_in(char32_t{0x11DE0}, unicode::numbers));
    CHECK(category_of(char32_t{0x11F08}) == UnicodeCategory::Lo);  // of 15.0
    CHECK(!is_bert_accent(char32_t{0x08D4}));                      // of 9.0, which StripAccents knows
    CHECK(is_accent(char32_t{0x08D4}));
    CHECK(!is_punctuation(char32_t{0x2E55}));
    CHECK(is_punctuation(U'$'));
    CHECK(is_bert_control(char32_t{0}));
    CHECK(is_bert_control(char32_t{0xFFFD}));
    CHECK(!is_bert_control(U'\t'));
}
