// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/value.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace shardwise::testing {

/// A file of tests/golden, parsed.
[[nodiscard]] inline JsonDocument golden_json(std::string const& name) {
    std::ifstream file(SHARDWISE_SOURCE_DIR "/tests/golden/" + name);
    REQUIRE_MESSAGE(file.good(), name);
    std::stringstream text;
    text << file.rdbuf();
    auto document = parse_json(text.str());
    REQUIRE_MESSAGE(document, name);
    return *std::move(document);
}

}  // namespace shardwise::testing
