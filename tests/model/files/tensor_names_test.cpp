// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/tensor_names.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace shardwise;

TEST_CASE("names are numbered in their order and found again, across growth and moves") {
    TensorNames names;
    CHECK_FALSE(names.find("a").has_value());
    for (int i = 0; i < 1000; ++i) CHECK(names.add("name." + std::to_string(i)) == static_cast<std::uint32_t>(i));
    auto const moved = std::move(names);
    CHECK(moved.size() == 1000);
    for (int i = 0; i < 1000; ++i) {
        CHECK(moved.find("name." + std::to_string(i)) == static_cast<std::uint32_t>(i));
        CHECK(moved[static_cast<std::size_t>(i)] == "name." + std::to_string(i));
    }
    CHECK_FALSE(moved.find("name.1000").has_value());
}

TEST_CASE("a name is added once, the empty one and those with NUL included") {
    TensorNames names;
    CHECK(names.add("") == 0U);
    CHECK(names.add(std::string_view{"a\0b", 3}) == 1U);
    CHECK(names.add(std::string_view{"a\0c", 3}) == 2U);
    CHECK_FALSE(names.add("").has_value());
    CHECK_FALSE(names.add(std::string_view{"a\0b", 3}).has_value());
    CHECK(names.size() == 3);
}

TEST_CASE("names are hashed by SipHash-1-3") {
    // rust library/core/tests/hash/sip.rs, test_siphash_1_3: the empty text under the key 00 01 ... 0f
    CHECK(detail::hash_name("") == 0xabac0158050fc4dcULL);
    CHECK(detail::hash_name("12345678") != detail::hash_name("12345679"));
    CHECK(detail::hash_name(std::string_view{"a\0", 2}) != detail::hash_name("a"));
}
