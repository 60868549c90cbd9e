// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/detail/line_splitter.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

using shardwise::detail::LineSplitter;

std::string split(LineSplitter& splitter, std::string_view bytes) {
    std::string out;
    splitter.add(bytes, out);
    return out;
}

TEST_CASE("LineSplitter: lines are given whole, wherever they were cut, with the prefix before each") {
    LineSplitter splitter("[rank2] ");
    CHECK(split(splitter, "one\ntw").compare("[rank2] one\n") == 0);
    CHECK(split(splitter, "") == "");
    CHECK(split(splitter, "o\n\n\nthree").compare("[rank2] two\n[rank2] \n[rank2] \n") == 0);
    std::string out;
    splitter.finish(out);
    CHECK(out == "[rank2] three\n");
    out.clear();
    splitter.finish(out);
    CHECK(out.empty());
}

TEST_CASE("LineSplitter: without a prefix lines are as they were, with any bytes") {
    LineSplitter splitter("");
    std::string const bytes("a\0b\r\n\xff\n", 7);
    CHECK(split(splitter, bytes) == bytes);
}

TEST_CASE("LineSplitter: a line of 64 KiB is whole, a longer one comes in parts") {
    for (std::size_t const step : {std::size_t{1000}, std::size_t{65536}, std::size_t{200000}}) {
        CAPTURE(step);
        LineSplitter splitter("> ");
        std::string const longest(65536, 'x');
        auto const text = longest + "\n" + longest + "yz\n" + "end\n";
        std::string out;
        for (std::size_t at = 0; at < text.size(); at += step)
            splitter.add(std::string_view(text).substr(at, step), out);
        CHECK(out == "> " + longest + "\n> " + longest + "\n> yz\n> end\n");
    }
}

TEST_CASE("LineSplitter: the last lines are kept") {
    LineSplitter splitter("> ", 2);
    (void)split(splitter, "1\n2\n3");
    CHECK((splitter.last().size() == 2 && splitter.last().front() == "1"));
    std::string out;
    splitter.finish(out);
    CHECK((splitter.last().size() == 2 && splitter.last().front() == "2" && splitter.last().back() == "3"));
}

}  // namespace
