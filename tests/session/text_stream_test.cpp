// SPDX-License-Identifier: Apache-2.0
#include <shardwise/session/text_stream.hpp>

#include <doctest/doctest.h>

#include "letters.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("TextStream: the first of several stop strings ends the text, and what may begin one waits") {
    auto const tokenizer = letters();
    auto const stream = [&](std::string const& text, std::vector<std::string> const& stops) {
        std::string shown;
        TextStream out(tokenizer, stops, [&](std::string_view piece) { (shown += piece) += '|'; });
        for (char const letter : text) {
            if (!out.push(letter - 'a')) break;
        }
        out.finish();
        CHECK(out.has_stopped() == (out.text() != text));
        return shown + " " + out.text();
    };
    CHECK(stream("abcd", {}) == "a|b|c|d| abcd");
    CHECK(stream("abcd", {"bc"}) == "a| a");
    CHECK(stream("abab", {"abc"}) == "ab|ab| abab");
    CHECK(stream("ababc", {"abc"}) == "ab| ab");
    CHECK(stream("aaab", {"aab"}) == "a| a");
    CHECK(stream("xabcd", {"cd", "abcz", "bcd"}) == "x|a| xa");
    CHECK(stream("abcd", {"", "d"}) == "a|b|c| abc");
    CHECK(stream("abc", {"a"}) == " ");
}

}  // namespace
