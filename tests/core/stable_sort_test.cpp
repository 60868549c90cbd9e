// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/stable_sort.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace shardwise;

TEST_CASE("stable_sort: the order of std::stable_sort, for every number of elements and of different keys") {
    std::mt19937 generator(7);
    for (std::size_t count = 0; count < 70; ++count) {
        for (std::uint32_t const keys : {1U, 2U, 5U, 1000U}) {
            std::vector<std::pair<std::uint32_t, std::size_t>> values;
            for (std::size_t i = 0; i < count; ++i)
                values.emplace_back(static_cast<std::uint32_t>(generator()) % keys, i);
            auto expected = values;
            auto const is_less = [](auto const& a, auto const& b) { return a.first < b.first; };
            std::stable_sort(expected.begin(), expected.end(), is_less);
            detail::stable_sort(values.begin(), values.end(), is_less);
            CHECK(values == expected);
        }
    }
}

TEST_CASE("stable_sort: elements that can only be moved, by pointers as iterators") {
    std::vector<std::unique_ptr<std::string>> values;
    for (auto const* text : {"d", "b", "a", "c", "b"}) values.push_back(std::make_unique<std::string>(text));
    auto const* const second = values[1].get();
    detail::stable_sort(values.data(), values.data() + values.size(),
                        [](auto const& a, auto const& b) { return *a < *b; });
    std::string all;
    for (auto const& value : values) all += *value;
    CHECK(all == "abbcd");
    CHECK(values[1].get() == second);
}
