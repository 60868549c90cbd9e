// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <type_traits>

using namespace shardwise;

TEST_CASE("Optional: holds a value or none") {
    Optional<int> none;
    Optional<int> some = 4;
    CHECK_FALSE(none.has_value());
    CHECK(none.value_or(7) == 7);
    REQUIRE(some);
    CHECK(*some == 4);
    CHECK(some.value_or(7) == 4);
    some = std::nullopt;
    CHECK_FALSE(some);
    none = 9;
    CHECK(none.value() == 9);
    none.reset();
    CHECK_FALSE(none);
    none = {};
    CHECK_FALSE(none);
}

TEST_CASE("Optional: none equals none only, values compare") {
    CHECK(Optional<int>{} == Optional<int>{});
    CHECK(Optional<int>{3} == 3);
    CHECK(Optional<int>{3} != 4);
    CHECK(Optional<int>{0} != Optional<int>{});
    CHECK(Optional<int>{} == std::nullopt);
}

TEST_CASE("Optional: converts to and from std::optional") {
    std::optional<int> const standard = Optional<int>{3};
    CHECK(standard == 3);
    std::optional<int> const empty = Optional<int>{};
    CHECK_FALSE(empty);
    Optional<int> const back = standard;
    CHECK(back == 3);
    Optional<int> const nothing = empty;
    CHECK_FALSE(nothing);
    CHECK((nothing == empty));
    CHECK((empty == nothing));
    CHECK((back == standard));
    CHECK((nothing != standard));
}

TEST_CASE("Optional: is copied as its value is, in constant expressions too") {
    CHECK(std::is_trivially_copyable_v<Optional<int>>);
    Optional<List<int>> const list = List<int>{1, 2};
    auto copy = list;
    copy->push_back(3);
    CHECK(list->size() == 2);
    CHECK(copy->size() == 3);
    constexpr auto largest = [] {
        Optional<int> best;
        for (int const value : {3, 8, 5}) {
            if (!best || *best < value) best = value;
        }
        return best;
    }();
    static_assert(largest == 8);
}
