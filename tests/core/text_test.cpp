// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/literal.hpp>
#include <shardwise/core/text.hpp>

#include <doctest/doctest.h>

namespace {

using namespace shardwise;

static_assert(edit_distance("kitten", "sitting") == 3);
static_assert(edit_distance("", "abc") == 3);
static_assert(edit_distance("Llama", "lLAMA") == 0);

// A literal, any other text, a part of a text without an end of its own, and nothing are taken as they are.
static_assert(std::string_view{Literal{"blk.{}.attn_q"}} == "blk.{}.attn_q");
static_assert(std::string_view{Literal{std::string_view{"hidden_size"}.substr(0, 6)}} == "hidden");
static_assert(std::string_view{Literal{}}.empty());

TEST_CASE("ClosestName: the nearest candidate wins, a beginning counts as near, a stranger gives nothing") {
    ClosestName closest("lama");
    closest.offer("gemma");
    closest.offer("llama");
    CHECK(closest.best() == "llama");

    ClosestName beginning("A100");
    beginning.offer("A100-80GB");
    CHECK(beginning.best() == "A100-80GB");

    ClosestName stranger("xyzzy");
    stranger.offer("transformer.h");
    CHECK(stranger.best().empty());
}

}  // namespace
