#include <shardwise/core/text.hpp>

#include <doctest/doctest.h>

namespace {

using namespace shardwise;

static_assert(edit_distance("kitten", "sitting") == 3);
static_assert(edit_distance("", "abc") == 3);
static_assert(edit_distance("Llama", "lLAMA") == 0);

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
