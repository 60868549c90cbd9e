// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/name_arena.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using shardwise::NameArena;

TEST_CASE("NameArena: joins parts and spells numbers") {
    NameArena arena;
    CHECK(arena.join("Llama", "Attention") == "LlamaAttention");
    CHECK(arena.join("a", ".", "b") == "a.b");
    CHECK(arena.join("", "").empty());
    CHECK(arena.number(0) == "0");
    CHECK(arena.number(18446744073709551615ULL) == "18446744073709551615");
}

TEST_CASE("NameArena: names stay where they are when it grows and when it is moved") {
    NameArena arena;
    std::vector<std::string_view> views;
    for (std::size_t i = 0; i < 2000; ++i) views.push_back(arena.join("layer.", arena.number(i)));
    auto moved = std::move(arena);
    (void)moved.join("more");
    for (std::size_t i = 0; i < views.size(); ++i) CHECK(views[i] == "layer." + std::to_string(i));
    NameArena assigned;
    (void)assigned.join("old");
    assigned = std::move(moved);
    CHECK(views[1999] == "layer.1999");
    CHECK(assigned.join("x") == "x");
}

TEST_CASE("NameArena: keeps names longer than its chunks") {
    NameArena arena;
    std::string const text(100'000, 'n');
    CHECK(arena.join("short") == "short");
    CHECK(arena.join(text) == text);
}
