// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/enumerator_count.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>

using namespace shardwise;

namespace {

enum class Colour : std::uint8_t { red, green, blue };
enum class None : std::uint8_t {};
enum class Gap : std::uint8_t { first, third = 2 };

}  // namespace

TEST_CASE("enumerator_count: as many as follow each other from 0") {
    static_assert(enumerator_count<Colour>() == 3);
    static_assert(enumerator_count<None>() == 0);
    static_assert(enumerator_count<Gap>() == 1);
    static_assert(named_values<Gap, 4>() == std::array{true, false, true, false});
    CHECK(enumerator_count<Colour>() == 3);
}
