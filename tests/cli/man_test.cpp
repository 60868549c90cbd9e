// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "shell.hpp"
#include "skip.hpp"

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// Every "--flag" in a text.
[[nodiscard]] std::vector<std::string> flags_in(std::string_view text) {
    std::vector<std::string> flags;
    for (auto place = text.find("--"); place != std::string_view::npos; place = text.find("--", place + 2)) {
        auto end = place + 2;
        while (end < text.size() && (text[end] == '-' || (text[end] >= 'a' && text[end] <= 'z'))) ++end;
        flags.emplace_back(text.substr(place, end - place));
        place = end - 2;
    }
    return flags;
}

/// The commands that --help lists.
[[nodiscard]] std::vector<std::string> commands() {
    auto const help = run({"--help"}).out;
    auto const begin = help.find("Commands:\n") + 10;
    std::vector<std::string> names;
    for (auto const& line : lines_of(help.substr(begin, help.find("\n\n", begin) - begin))) {
        if (line.substr(0, 2) == "  " && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
    return names;
}

}  // namespace

TEST_CASE("man: the page passes the linters without a word") {
    TemporaryFolder const folder;
    auto const page = folder.write("shardwise.1", run({"man"}).out);
    if (is_installed("groff"))
        CHECK(run_in_shell("groff -man -ww -Tutf8 '" + page + "' > /dev/null").out.empty());
    else
        shardwise::testing::note_absent_tool("groff");
    if (!is_installed("mandoc")) {
        shardwise::testing::note_absent_tool("mandoc");
        return;
    }
    // A page without a date is the same page whenever it is built.
    auto const lint = run_in_shell("mandoc -T lint -W all '" + page + "' | grep -v 'missing date'");
    CHECK(lint.out == "");
}

TEST_CASE("man: the page and --help name the same flags, for every command") {
    auto const page = run({"man"}).out;
    std::string plain;
    for (std::size_t i = 0; i < page.size(); ++i) {
        if (page[i] != '\\' || page[i + 1] != '-') plain += page[i];
    }
    REQUIRE(commands().size() >= 4);
    for (auto const& command : commands()) {
        CAPTURE(command);
        auto const section = plain.find(".SS shardwise " + command + "\n");
        REQUIRE(section != std::string::npos);
        auto const text = plain.substr(section, plain.find("\n.S", section + 4) - section);
        auto const help = run({command, "--help"});
        CHECK(help.status == 0);
        for (auto const& flag : flags_in(help.out.substr(0, help.out.find("\nExamples:")))) {
            CAPTURE(flag);
            CHECK(text.find(flag) != std::string::npos);
        }
    }
}

TEST_CASE("man: no line of the help is longer than the terminal it is written for") {
    for (auto const& command : commands()) {
        for (auto const& line : lines_of(run({command, "--help"}).out)) CHECK(line.size() <= 112);
    }
}
