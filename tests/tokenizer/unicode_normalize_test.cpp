// SPDX-License-Identifier: Apache-2.0
#include <shardwise/tokenizer/unicode_normalize.hpp>
#include <shardwise/tokenizer/utf8.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

TEST_CASE("Normalisation forms agree with the examples of UAX 15") {
    auto const all = [](std::u32string_view text) {
        std::u32string out;
        for (auto const form : {UnicodeForm::nfd, UnicodeForm::nfc, UnicodeForm::nfkd, UnicodeForm::nfkc}) {
            out += normalize(text, form) + U"|";
        }
        return out;
    };
    CHECK(all(U"\u1E9B\u0323") == U"\u017F\u0323\u0307|\u1E9B\u0323|s\u0323\u0307|\u1E69|");
    CHECK(all(U"\uFB01") == U"\uFB01|\uFB01|fi|fi|");
    CHECK(all(U"2\u2075") == U"2\u2075|2\u2075|25|25|");
    CHECK(all(U"\u212B") == U"A\u030A|\u00C5|A\u030A|\u00C5|");
    CHECK(all(U"\uD55C") == U"\u1112\u1161\u11AB|\uD55C|\u1112\u1161\u11AB|\uD55C|");
    CHECK(all(U"\u1112\u1161\u11AB") == U"\u1112\u1161\u11AB|\uD55C|\u1112\u1161\u11AB|\uD55C|");
    CHECK(normalize(U"a\u0315\u0300\u05AE\u0062", UnicodeForm::nfc) == U"\u00E0\u05AE\u0315\u0062");
    CHECK(normalize(U"a\u0327\u0328", UnicodeForm::nfc) == U"a\u0327\u0328");  // blocked by a mark of one class
    CHECK(normalize(U"\u0958", UnicodeForm::nfc) == U"\u0915\u093C");          // a composition exclusion
    CHECK(normalize(U"\u0344", UnicodeForm::nfc) == U"\u0308\u0301");
    CHECK(normalize(U"\U0002F800", UnicodeForm::nfc) == U"\u4E3D");
}

TEST_CASE("Each code point's category, case and white space are those of Unicode") {
    CHECK(category_of(U'A') == UnicodeCategory::Lu);
    CHECK(category_of(U'\u01C5') == UnicodeCategory::Lt);
    CHECK(category_of(U'\u0301') == UnicodeCategory::Mn);
    CHECK(category_of(U'\u4E2D') == UnicodeCategory::Lo);
    CHECK(category_of(U'\u0663') == UnicodeCategory::Nd);
    CHECK(category_of(char32_t{0x10FFFF}) == UnicodeCategory::Cn);
    CHECK(category_of(char32_t{0x110000}) == UnicodeCategory::Cn);
    CHECK(to_lower(U'\u00C4') == U'\u00E4');
    CHECK(to_lower(U'\u03A3') == U'\u03C3');
    CHECK(to_lower(U'\U00010400') == U'\U00010428');
    CHECK(to_lower(U'\u4E2D') == U'\u4E2D');
    int spaces = 0;
    for (char32_t code = 0; code < 0x3001; ++code) spaces += is_white_space(code) ? 1 : 0;
    CHECK(spaces == 25);  // Unicode's PropList has 25 code points of White_Space
}

TEST_CASE("Broken UTF-8 becomes one replacement character for each longest beginning") {
    CHECK(to_valid_utf8("a\xFF"
                        "b") == "a\uFFFDb");
    CHECK(to_valid_utf8("\xE2\x82"
                        "a") == "\uFFFDa");
    CHECK(to_valid_utf8("\xE2\x82\xE2\x82\xAC") == "\uFFFD€");
    CHECK(to_valid_utf8("\xF0\x9F\x98") == "\uFFFD");
    CHECK(to_valid_utf8("\xC0\x80") == "\uFFFD\uFFFD");
    CHECK(to_valid_utf8("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");
    CHECK(to_valid_utf8("😀é") == "😀é");
}

TEST_CASE("The tail of a text that is the beginning of a character is found") {
    std::string const text = "a😀";
    CHECK(cut_utf8_tail(text) == 0);
    CHECK(cut_utf8_tail(text.substr(0, 4)) == 3);
    CHECK(cut_utf8_tail(text.substr(0, 3)) == 2);
    CHECK(cut_utf8_tail(text.substr(0, 2)) == 1);
    CHECK(cut_utf8_tail("a") == 0);
    CHECK(cut_utf8_tail("") == 0);
    CHECK(cut_utf8_tail("\x80\x80\x80\x80") == 0);
}
