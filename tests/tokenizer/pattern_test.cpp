// SPDX-License-Identifier: Apache-2.0
#include <shardwise/tokenizer/parse_pattern.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace shardwise;

namespace {

/// The matches in brackets, what lies between as it is.
std::string marked(std::string_view pattern, std::string_view text) {
    auto const parsed = parse_pattern(pattern);
    if (!parsed) return parsed.error().message();
    auto const codes = to_code_points(text);
    auto const found = parsed->find_all(codes);
    if (!found) return found.error().message();
    std::string out;
    std::size_t at = 0;
    for (auto const& range : *found) {
        out += to_utf8(std::u32string_view(codes).substr(at, range.first - at));
        out += '[' + to_utf8(std::u32string_view(codes).substr(range.first, range.end - range.first)) + ']';
        at = range.end;
    }
    return out + to_utf8(std::u32string_view(codes).substr(at));
}

}  // namespace

TEST_CASE("A pattern takes its first alternative that matches, not the longest") {
    CHECK(marked("a|ab|c", "abc") == "[a]b[c]");
    CHECK(marked("(?:a|ab)c", "abcac") == "[abc][ac]");
    CHECK(marked("'s|'t| ?\\p{L}+", "it's  so") == "[it]['s] [ so]");
}

TEST_CASE("Quantifiers are greedy, lazy or possessive") {
    CHECK(marked("a{2,3}", "aaaaaaa") == "[aaa][aaa]a");
    CHECK(marked("a{2}", "aaa") == "[aa]a");
    CHECK(marked("a{2,}", "a aa aaaa") == "a [aa] [aaaa]");
    CHECK(marked("a+?b", "aab") == "[aab]");
    CHECK(marked("a+?", "aa") == "[a][a]");
    CHECK(marked("a*ab", "aaab") == "[aaab]");
    CHECK(marked("a*+ab", "aaab") == "aaab");
    CHECK(marked("(?>a|ab)c", "abc") == "abc");
    CHECK(marked("(?:ab)+c?", "ababcab") == "[ababc][ab]");
    CHECK(marked("(?:ab){1,2}", "ababab") == "[abab][ab]");
    CHECK(marked("x(?:ab){0,2}y", "xy xaby xababy xabababy") == "[xy] [xaby] [xababy] xabababy");
    CHECK(marked("(?:ab)+?b?", "abab") == "[ab][ab]");
}

TEST_CASE("An empty match counts unless it touches the match before") {
    CHECK(marked("a*", "aab") == "[aa]b[]");
    CHECK(marked("x?", "ab") == "[]a[]b[]");
}

TEST_CASE("Lookahead looks and takes nothing") {
    CHECK(marked("\\s+(?!\\S)", "a   b  ") == "a[  ] b[  ]");
    CHECK(marked("a(?=b)", "abac") == "[a]bac");
    CHECK(marked("(?=(\\d{3})+(?!\\d))", "1234567") == "1[]234[]567");
}

TEST_CASE("Classes have ranges, categories, negation and escapes") {
    CHECK(marked("[^\\s\\p{L}\\p{N}]+", "a!? 1,b") == "a[!?] 1[,]b");
    CHECK(marked("[a-c\\-\\]]+", "ab-]d") == "[ab-]]d");
    CHECK(marked("[]a]+", "a]b") == "[a]]b");
    CHECK(marked("[+-]", "a-b+") == "a[-]b[+]");
    CHECK(marked("\\p{Lu}\\p{Ll}", "ÄäаБв") == "[Ää]а[Бв]");
    CHECK(marked("\\P{L}", "a1b") == "a[1]b");
    CHECK(marked("\\p{^L}", "a1b") == "a[1]b");
    CHECK(marked("[一-龥]+", "abc漢字") == "abc[漢字]");
    CHECK(marked("\\x41\\u0042\\x{1F600}", "AB😀") == "[AB😀]");
    CHECK(marked(".+", "ab\ncd") == "[ab]\n[cd]");
    CHECK(marked("\\bfoo\\b", "foo food foo") == "[foo] food [foo]");
    CHECK(marked("\\w+", "aé_1٣ 漢-") == "[aé_1٣] [漢]-");
    CHECK(marked("^a$", "a\na b") == "[a]\na b");
}

TEST_CASE("A group may ignore case, also that of the long s and the Kelvin sign") {
    CHECK(marked("(?i:'s|'ll|k)a?", "'S'lL'ſ\u212AA") == "['S]['lL]['ſ][\u212A]A");
}

TEST_CASE("What a pattern has that is not supported is said") {
    for (auto const* const pattern : {"(?<=a)b", "\\p{Han}",
                                      "\\1",     "[a[b]]",
                                      "[a&&b]",  "(a",
                                      "a)",      "[a",
                                      "*a",      "a**",
                                      "(a*)*",   "a{3,2}",
                                      "a{2000}", "\\",
                                      "\\p{L",   "\\Q",
                                      "(?x:a)",  "[b-a]",
                                      "\\p",     "a{",
                                      "\\xg",    "((((a{900}){900}){900}){900})"}) {
        auto const parsed = parse_pattern(pattern);
        INFO(pattern);
        REQUIRE(!parsed);
        CHECK(parsed.error().code() == ErrorCode::unsupported);
        CHECK(parsed.error().place() == pattern);
    }
    CHECK(!parse_pattern(std::string(1000, '(')));
}

TEST_CASE("A pattern that takes exponential time is stopped") {
    auto const parsed = parse_pattern("(?:a|aa)+$b");
    REQUIRE(parsed);
    auto const found = parsed->find_all(std::u32string(60, U'a'));
    REQUIRE(!found);
    CHECK(found.error().code() == ErrorCode::capacity_exceeded);
}

TEST_CASE("A long run costs no stack") {
    std::u32string const text(200'000, U'a');
    auto const found = parse_pattern("(?:ab|a)+|x")->find_all(text);
    REQUIRE(found);
    CHECK(found->size() == 1);
}
