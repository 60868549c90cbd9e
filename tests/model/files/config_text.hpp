// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/files/config_json.hpp>

#include <doctest/doctest.h>

#include <string>

/// What becomes of the text of a config.json.
namespace shardwise::testing {

[[nodiscard]] inline ConfigFile config_of(std::string const& text) {
    auto const file = read_config(text, "config.json");
    REQUIRE_MESSAGE(file, (file ? "" : file.error().message()));
    return *file;
}

[[nodiscard]] inline std::string refusal_of(std::string const& text) {
    auto const file = read_config(text, "config.json");
    return file ? "accepted" : file.error().message();
}
[[nodiscard]] inline ErrorCode refusal_code_of(std::string const& text) {
    auto const file = read_config(text, "config.json");
    REQUIRE_FALSE(file);
    return file.error().code();
}

/// A llama config with more members.
[[nodiscard]] inline std::string llama_config(std::string const& members) {
    return R"({"model_type": "llama")" + (members.empty() ? "" : ", " + members) + "}";
}

}  // namespace shardwise::testing
