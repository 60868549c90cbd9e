// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/layer_set.hpp>

#include <doctest/doctest.h>

using shardwise::LayerSet;

TEST_CASE("LayerSet: holds what was inserted, across words and up to its capacity") {
    LayerSet set;
    CHECK(set.empty());
    for (auto const layer : {0, 63, 64, 1023}) set.insert(layer);
    CHECK(!set.empty());
    for (auto const layer : {0, 63, 64, 1023}) CHECK(set.contains(layer));
    for (auto const layer : {1, 62, 65, 127, 1022}) CHECK(!set.contains(layer));
    set.erase(64);
    CHECK(!set.contains(64));
    CHECK(set.contains(63));
}

TEST_CASE("LayerSet: layers that no model has are in no set") {
    LayerSet set;
    set.insert(0);
    CHECK(!set.contains(-1));
    CHECK(!set.contains(LayerSet::capacity));
    CHECK(!set.contains(std::int64_t{1} << 40U));
}

TEST_CASE("LayerSet: sets with the same layers are equal") {
    LayerSet a;
    LayerSet b;
    a.insert(900);
    CHECK(!(a == b));
    b.insert(900);
    CHECK(a == b);
}
