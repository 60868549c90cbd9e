// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/utf8.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace {

using namespace shardwise;

TEST_CASE("utf8: of the first bytes those alone are a code point that Unicode's table 3-7 has") {
    struct Row {
        std::string_view text;
        std::size_t length;
    };
    for (auto const& row :
         {Row{"", 0}, Row{"a\xFF", 1}, Row{"\x7F", 1}, Row{"\x80", 0}, Row{"\xC1\xBF", 0}, Row{"\xC2\x80", 2},
          Row{"\xDF\xBFz", 2}, Row{"\xE0\x9F\xBF", 0}, Row{"\xE0\xA0\x80", 3}, Row{"\xED\x9F\xBF", 3},
          Row{"\xED\xA0\x80", 0}, Row{"\xEF\xBF\xBF", 3}, Row{"\xF0\x8F\xBF\xBF", 0}, Row{"\xF0\x90\x80\x80", 4},
          Row{"\xF4\x8F\xBF\xBF", 4}, Row{"\xF4\x90\x80\x80", 0}, Row{"\xF5\x80\x80\x80", 0}, Row{"\xE2\x82", 0}}) {
        CAPTURE(row.text);
        CHECK(utf8_length(row.text) == row.length);
        bool const is_whole = row.length == row.text.size();
        // Each beginning of a whole code point is cut, and nothing else is.
        for (std::size_t size = 1; is_whole && size < row.length; ++size) CHECK(is_cut_utf8(row.text.substr(0, size)));
        CHECK(is_cut_utf8(row.text) == (row.text == "\xE2\x82"));
    }
    for (auto const text : {"\xE0\x9F", "\xED\xA0", "\xF0\x8F", "\xF4\x90", "\xC1", "\xF5", "\xC2z", "\xF0\x90z"})
        CHECK_FALSE(is_cut_utf8(text));
}

}  // namespace
