// SPDX-License-Identifier: Apache-2.0
#include "doc_snippets.hpp"

#include <doctest/doctest.h>

TEST_CASE("snippets: a document without marks has none") {
    house::Snippets const found = house::find_snippets("# Title\n```cpp\nint x;\n```\ntext\n");
    CHECK(found.list.empty());
    CHECK(found.problems.empty());
}

TEST_CASE("snippets: a marked block comes with the output that follows") {
    house::Snippets const found = house::find_snippets(
        "# Title\n<!-- test: readme -->\n```cpp\nint main() {}\n```\nIt "
        "prints:\n```text\na\n\nb\n```\n```text\nc\n```\n");
    REQUIRE(found.list.size() == 1);
    CHECK(found.list[0].name == "readme");
    CHECK(found.list[0].line == 2);
    CHECK(found.list[0].code == "int main() {}\n");
    CHECK(found.list[0].has_output);
    CHECK(found.list[0].output == "a\n\nb\n");
}

TEST_CASE("snippets: neither a heading, a mark nor a cpp block lets a later output through") {
    for (std::string const between : {"## Next\n", "<!-- test: b -->\n```cpp\n```\n", "```cpp\nint y;\n```\n"}) {
        house::Snippets const found =
            house::find_snippets("<!-- test: a -->\n```cpp\nint x;\n```\n" + between + "```\nout\n```\n");
        REQUIRE(!found.list.empty());
        CHECK_FALSE(found.list[0].has_output);
    }
}

TEST_CASE("snippets: a mark without its block is a problem and a mark inside a block is text") {
    CHECK(house::find_snippets("<!-- test: a -->\nno block\n").problems.size() == 1);
    CHECK(house::find_snippets("<!-- run: shardwise map -->\n").problems.size() == 1);
    house::Snippets const shown = house::find_snippets("```text\n<!-- test: a -->\n```\n");
    CHECK(shown.problems.empty());
    CHECK(shown.list.empty());
}

TEST_CASE("snippets: a command comes with its output") {
    house::Snippets const found = house::find_snippets("<!-- run: shardwise map x -->\n```console\nfits\n```\n");
    REQUIRE(found.list.size() == 1);
    CHECK(found.list[0].command == "shardwise map x");
    CHECK(found.list[0].output == "fits\n");
}

TEST_CASE("snippets: statements get a main after the includes") {
    CHECK(house::make_program("#include <cstdio>\nint x = 1;\n#include <vector>\n") ==
          "#include <cstdio>\n#include <vector>\nint main() {\nint x = 1;\n}\n");
    CHECK(house::make_program("int main() {}\n") == "int main() {}\n");
}

TEST_CASE("snippets: programs that can be in one unit are, each in a namespace") {
    CHECK(house::can_join("#include <x>\nusing namespace shardwise;\nint main() {\n}\n"));
    CHECK_FALSE(house::can_join("namespace shardwise {\n}\nint main() {\n}\n"));
    CHECK_FALSE(house::can_join("int main(int argc, char** argv) {\n}\n"));
    std::string const both =
        house::join_programs({"#include <cstdio>\nint main() {\nf();\n}\n", "int x;\nint main() {\n}\n"});
    CHECK(both.find("#include <cstdio>\nnamespace program_0 {\nint run() {\nf();\nreturn 0;\n}\n}\n") !=
          std::string::npos);
    CHECK(both.find("namespace program_1 {\nint x;\nint run() {\nreturn 0;\n}\n}\n") != std::string::npos);
    CHECK(both.find("if (number == \"1\") return program_1::run();") != std::string::npos);
}
