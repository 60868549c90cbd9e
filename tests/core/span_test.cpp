// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>

#include <doctest/doctest.h>

#include <array>
#include <span>
#include <vector>

using namespace shardwise;

namespace {

constexpr int sum(Span<int const> values) {
    int total = 0;
    for (int const value : values) total += value;
    return total;
}

int standard_sum(std::span<int const> values) {
    return sum(values);
}

}  // namespace

TEST_CASE("Span: views lists, vectors, arrays and std::span, and converts to std::span") {
    int const plain[] = {1, 2, 3};
    std::array const fixed{1, 2, 3};
    std::vector const vector{1, 2, 3};
    List<int> const list{1, 2, 3};
    CHECK(sum(plain) == 6);
    CHECK(sum(fixed) == 6);
    CHECK(sum(vector) == 6);
    CHECK(sum(list) == 6);
    CHECK(sum(std::span{vector}) == 6);
    CHECK(standard_sum(Span<int const>{list}) == 6);
    CHECK(sum({}) == 0);
}

TEST_CASE("Span: writes through to what it views, and a view of values converts to one of constants") {
    List<int> list{1, 2, 3};
    Span<int> const view = list;
    view[1] = 5;
    view.back() = 7;
    CHECK(list == List<int>{1, 5, 7});
    CHECK(sum(view) == 13);
    CHECK(view.data() == list.data());
}

TEST_CASE("Span: its parts are those of std::span") {
    std::array const values{1, 2, 3, 4};
    Span<int const> const view = values;
    CHECK(sum(view.first(2)) == 3);
    CHECK(sum(view.last(1)) == 4);
    CHECK(sum(view.subspan(1)) == 9);
    CHECK(sum(view.subspan(1, 2)) == 5);
    CHECK(view.subspan(4).empty());
    CHECK(view.front() == 1);
}

TEST_CASE("Span: refuses what it must not view") {
    CHECK_FALSE(std::is_convertible_v<List<int> const&, Span<int>>);
    CHECK_FALSE(std::is_convertible_v<List<long>&, Span<int const>>);
    CHECK_FALSE(std::is_convertible_v<int, Span<int const>>);
}
