// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/number_table.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using shardwise::detail::NumberTable;

namespace {

/// Texts under hashes that many of them share, so that most slots are not where their hash says.
struct Texts {
    std::vector<std::string> texts;
    NumberTable numbers;

    static std::uint32_t hash_of(std::string const& text) {
        return static_cast<std::uint32_t>(text.size() % 3) + 0xFFFFFFFDU;
    }
    auto is(std::string const& text) const {
        return [this, &text](std::uint32_t number) { return texts[number] == text; };
    }
    std::pair<std::uint32_t, bool> add(std::string const& text) {
        auto const added = numbers.find_or_add(hash_of(text), is(text));
        if (added.second) texts.push_back(text);
        return added;
    }
};

}  // namespace

TEST_CASE("numbers are found by hashes that others share, across growth") {
    for (std::size_t const reserved : {0U, 48U, 49U, 1000U}) {
        Texts table;
        CHECK_FALSE(table.numbers.find(0, [](std::uint32_t) { return true; }).has_value());
        table.numbers.reserve(reserved);
        for (std::uint32_t i = 0; i < 500; ++i) {
            CHECK(table.add(std::to_string(i)) == std::pair{i, true});
            CHECK(table.add(std::to_string(i / 2)) == std::pair{i / 2, false});
        }
        CHECK(table.numbers.size() == 500);
        for (std::uint32_t i = 0; i < 500; ++i) {
            auto const text = std::to_string(i);
            CHECK(table.numbers.find(Texts::hash_of(text), table.is(text)) == i);
        }
        std::string const other = "500";
        CHECK_FALSE(table.numbers.find(Texts::hash_of(other), table.is(other)).has_value());
        CHECK_FALSE(table.numbers.find(7, [](std::uint32_t) { return true; }).has_value());
    }
}
