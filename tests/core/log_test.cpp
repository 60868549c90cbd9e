// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/log.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {

using namespace shardwise;

TEST_CASE("Log: the sink hears its level and those before it, with the rank") {
    std::vector<std::string> heard;
    auto const sink = [&](LogLine const& line) {
        heard.push_back(std::to_string(line.rank) + " " + std::string(name_of(line.level)) + " " +
                        std::string(line.text));
    };
    Log const log(sink, LogLevel::info);
    log(LogLevel::debug, 0, "unheard");
    log(LogLevel::info, 1, "loaded");
    log(LogLevel::error, 2, "ends");
    CHECK(heard == std::vector<std::string>{"1 info loaded", "2 error ends"});
    CHECK(log.hears(LogLevel::warn));
    CHECK_FALSE(log.hears(LogLevel::debug));
    CHECK_FALSE(Log{}.hears(LogLevel::error));
    Log{}(LogLevel::error, 0, "nobody hears this");
}

TEST_CASE("parse_log_level: takes the four names and refuses another word by name") {
    for (auto const level : {LogLevel::error, LogLevel::warn, LogLevel::info, LogLevel::debug})
        CHECK(parse_log_level(name_of(level), "SHARDWISE_LOG").value() == level);
    auto const refused = parse_log_level("verbose", "SHARDWISE_LOG");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::unknown_name);
    CHECK(refused.error().message() == "SHARDWISE_LOG: verbose: is no level of a log; use error, warn, info or debug");
    CHECK_FALSE(parse_log_level("Debug", "SHARDWISE_LOG"));
    CHECK_FALSE(parse_log_level("", "SHARDWISE_LOG"));
}

}  // namespace
