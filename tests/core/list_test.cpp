// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/list.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace shardwise;

constexpr int sum_of_squares(int count) {
    List<int> squares;
    for (int i = 1; i <= count; ++i) squares.push_back(i * i);
    auto copy = squares;
    copy.push_back(0);
    int sum = 0;
    for (auto const square : copy) sum += square;
    return sum;
}
static_assert(sum_of_squares(10) == 385);

TEST_CASE("List: does what std::vector does under random operations") {
    std::mt19937 generator(3);
    List<std::string> list;
    std::vector<std::string> vector;
    for (int step = 0; step < 20'000; ++step) {
        auto const value = std::to_string(generator() % 1000);
        auto const place = vector.empty() ? 0 : generator() % (vector.size() + 1);
        switch (generator() % 8) {
            case 0:
            case 1:
            case 2:
                list.push_back(value);
                vector.push_back(value);
                break;
            case 3:
                list.insert(list.begin() + place, value);
                vector.insert(vector.begin() + static_cast<std::ptrdiff_t>(place), value);
                break;
            case 4:
                if (place < vector.size()) {
                    list.erase(list.begin() + place);
                    vector.erase(vector.begin() + static_cast<std::ptrdiff_t>(place));
                }
                break;
            case 5:
                if (!vector.empty()) {
                    list.push_back(list.front());
                    vector.push_back(vector.front());
                }
                break;
            case 6:
                if (vector.size() > 40) {
                    list.resize(place);
                    vector.resize(place);
                }
                break;
            default: {
                auto copy = list;
                List<std::string> moved;
                moved = std::move(copy);
                list = moved;
            }
        }
        REQUIRE(std::vector<std::string>(list.begin(), list.end()) == vector);
    }
}

TEST_CASE("List: what grows after shrinking is empty again") {
    List<std::string> list{"a", "b"};
    list.resize(1);
    list.resize(2);
    CHECK(list[1].empty());
    list.assign(3, "x");
    CHECK(list == List<std::string>{"x", "x", "x"});
    CHECK(!(list == List<std::string>{"x", "x"}));
}

TEST_CASE("List: holds what can only be moved, and shows itself as a span") {
    List<std::unique_ptr<int>> list;
    for (int i = 0; i < 9; ++i) list.push_back(std::make_unique<int>(i));
    auto const moved = std::move(list);
    CHECK(*moved[8] == 8);
    List<int> const numbers{1, 2, 3};
    std::span<int const> const view{numbers};
    CHECK(view.size() == 3);
    CHECK(view[2] == 3);
}

}  // namespace
