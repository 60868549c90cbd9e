// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/error.hpp>

#include <doctest/doctest.h>

#include "program.hpp"

using namespace shardwise;

TEST_CASE("docs/reference/errors.md has a section for every code, with meaning, cause, advice and an example") {
    auto const text = tests::read_text(std::string(SHARDWISE_SOURCE_DIR) + "/docs/reference/errors.md");
    REQUIRE_FALSE(text.empty());
    for (int number = 0; number < 256; ++number) {
        auto const name = std::string(name_of(static_cast<ErrorCode>(number)));
        if (name == "unknown") continue;
        CAPTURE(name);
        auto const begin = text.find("\n## " + name + "\n");
        REQUIRE(begin != std::string::npos);
        auto const section = text.substr(begin, text.find("\n## ", begin + 1) - begin);
        for (std::string const part : {"**Means**", "**Typical cause**", "**What to do**", "**Example**"}) {
            CAPTURE(part);
            CHECK(section.find(part) != std::string::npos);
        }
    }
}
