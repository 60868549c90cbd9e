// SPDX-License-Identifier: Apache-2.0
#include <shardwise/placement/max_memory_json.hpp>

#include <doctest/doctest.h>

namespace {

using namespace shardwise;

TEST_CASE("max_memory is read with text keys, bytes as integers and sizes with units") {
    auto const limits = parse_max_memory(R"({"cpu": "30GB", "1": 8000000000, "0": "10GiB", "mps": "10Gb"})");
    REQUIRE(limits);
    REQUIRE(limits->limits().size() == 4);
    CHECK(limits->limits()[0] == DeviceLimit{DeviceId::gpu(0), 10_GiB});
    CHECK(limits->limits()[1] == DeviceLimit{DeviceId::gpu(1), 8_GB});
    CHECK(limits->limits()[2] == DeviceLimit{DeviceId::mps(), Bytes{1250000000}});
    CHECK(limits->limits()[3] == DeviceLimit{DeviceId::cpu(), 30_GB});
}

TEST_CASE("No device at all is a max_memory, and a limit beyond 2^60 is refused") {
    auto const none = parse_max_memory("{}");
    REQUIRE(none);
    CHECK(none->empty());
    auto const largest = parse_max_memory(R"({"0": 1152921504606846976})");
    REQUIRE(largest);
    CHECK(largest->of(DeviceId::gpu(0)) == Bytes{std::int64_t{1} << 60U});
    for (auto const* size : {"1152921504606846977", "9223372036854775807", "18446744073709551615", "\"2e9GiB\""}) {
        CAPTURE(size);
        auto const huge = parse_max_memory(std::string("{\"0\": ") + size + "}");
        REQUIRE_FALSE(huge);
        CHECK(huge.error().subject() == "max_memory");
        CHECK(huge.error().code() == ErrorCode::invalid_argument);
        CHECK(huge.error().reason() == "a limit is beyond 2^60 bytes");
    }
}

TEST_CASE("What is no max_memory is refused and says so") {
    for (auto const* text : {"", "[]", "7", "{\"0\": 1", "{\"0\": 1, \"0\": 2}"}) {
        CAPTURE(text);
        auto const limits = parse_max_memory(text);
        REQUIRE_FALSE(limits);
        CHECK(limits.error().subject() == "max_memory");
    }
    CHECK(parse_max_memory(R"({"gpu": 1})").error().code() == ErrorCode::unknown_name);
    for (auto const* size : {"1.5", "-5", "null", "true", "[]", "{}", "\"100b\"", "\"10X\"", "\"-1GB\"", "\"5MBB\""}) {
        CAPTURE(size);
        auto const limits = parse_max_memory(std::string("{\"0\": ") + size + "}");
        REQUIRE_FALSE(limits);
        CHECK(limits.error().code() == ErrorCode::invalid_argument);
    }
}

}  // namespace
