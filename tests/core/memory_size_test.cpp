// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/memory_size.hpp>

#include <doctest/doctest.h>

namespace {

using namespace shardwise;

std::int64_t bytes_of(std::string_view text) {
    auto const size = parse_memory_size(text);
    return size ? size->count() : -1;
}

// Expectations: accelerate 1.15 convert_file_size_to_int and its tests; facts/placement.md "Sizes".
TEST_CASE("parse_memory_size: binary and decimal units, fractions, and bits") {
    CHECK(bytes_of("10GiB") == 10LL << 30U);
    CHECK(bytes_of("10gib") == 10LL << 30U);
    CHECK(bytes_of("1.5MiB") == 1572864);
    CHECK(bytes_of("3KiB") == 3072);
    CHECK(bytes_of("10GB") == 10'000'000'000);
    CHECK(bytes_of("10Gb") == 1'250'000'000);
    CHECK(bytes_of("8mb") == 1'000'000);
    CHECK(bytes_of("2KB") == 2000);
    CHECK(bytes_of("0GiB") == 0);
    CHECK(bytes_of("1e1GB") == 10'000'000'000);
}

TEST_CASE("parse_memory_size: terabytes, letters alone, bare numbers and blanks") {
    CHECK(bytes_of("2TB") == 2'000'000'000'000);
    CHECK(bytes_of("1.5TiB") == 3LL << 39U);
    CHECK(bytes_of("1PB") == 1'000'000'000'000'000);
    CHECK(bytes_of("2PiB") == 2LL << 50U);
    CHECK(bytes_of("64G") == 64'000'000'000);
    CHECK(bytes_of("64g") == 64'000'000'000);
    CHECK(bytes_of("512M") == 512'000'000);
    CHECK(bytes_of("8k") == 8000);
    CHECK(bytes_of("1T") == 1'000'000'000'000);
    CHECK(bytes_of("8Tb") == 1'000'000'000'000);
    CHECK(bytes_of("16Gi") == 16LL << 30U);
    CHECK(bytes_of("100") == 100);
    CHECK(bytes_of("100B") == 100);
    CHECK(bytes_of("1e9") == 1'000'000'000);
    CHECK(bytes_of("5 GB") == 5'000'000'000);
    CHECK(bytes_of(" 5GB") == 5'000'000'000);
    CHECK(bytes_of("10 GiB ") == 10LL << 30U);
}

TEST_CASE("parse_memory_size: refuses other units, signs and what is no number") {
    for (auto const* text : {"5MBB", "-1GB", "-0GB", "-5", "GiB", "", " ", "1 0GB", "0x1GB", "infGB", "nanGB", "1e30GB",
                             "10000PB", "1..2GB", "1.5", "100b", "1EB", "5 G B", "5GiBB", "1_000KB", "G5"}) {
        CAPTURE(text);
        auto const size = parse_memory_size(text);
        REQUIRE(!size.has_value());
        CHECK(size.error().code() == ErrorCode::invalid_argument);
    }
}

}  // namespace
