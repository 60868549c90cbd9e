// SPDX-License-Identifier: Apache-2.0
#include <shardwise/placement/dialect/detail/layer_ledger.hpp>

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace {

using namespace shardwise;
using detail::LayerLedger;
using detail::RangeMaximum;

TEST_CASE("The largest of a range and its last place agree with a plain search while places are struck out") {
    std::mt19937 random(7);
    for (std::size_t size = 1; size < 40; ++size) {
        std::vector<std::int64_t> values(size);
        for (auto& value : values) value = static_cast<std::int64_t>(random() % 6);
        RangeMaximum maximum(values);
        for (int round = 0; round < 60; ++round) {
            std::size_t const first = random() % (size + 1);
            std::size_t const end = first + random() % (size + 1 - first);
            auto best = RangeMaximum::struck_out;
            auto last = RangeMaximum::nowhere;
            for (auto i = first; i < end; ++i) {
                if (values[i] < best) continue;
                best = values[i];
                if (best != RangeMaximum::struck_out) last = i;
            }
            CHECK(maximum.largest(first, end) == best);
            if (best != RangeMaximum::struck_out) CHECK(maximum.last_of(first, end, best) == last);
            if (random() % 4 == 0) {
                std::size_t const place = random() % size;
                values[place] = RangeMaximum::struck_out;
                maximum.strike(place);
            }
        }
    }
}

Tensor floats(std::int64_t count) {
    Tensor tensor{};
    tensor.name = "weight";
    tensor.shape = Shape{count};
    return tensor;
}

TEST_CASE("The largest layer is looked for again only once all of its size were taken") {
    ModuleTree tree;
    auto const small = tree.add("Leaf", {floats(1)});
    auto const large = tree.add("Leaf", {floats(3)});
    tree.set_root(tree.add("Model", List<Child>{{"a", large}, {"b", small}, {"c", large}, {"d", small}}));
    auto const expanded = expand(tree);
    REQUIRE(expanded);
    detail::WidthTable widths{};
    widths.fill(32);
    detail::SizeTable const sizes(*expanded, widths, {});
    LayerLedger ledger(*expanded, sizes, std::vector<char>(expanded->class_names().size(), 0));
    CHECK(ledger.largest() == 96);
    ledger.take_module(1);
    CHECK(ledger.largest() == 96);
    ledger.place(1);
    SUBCASE("a holder that is taken is none even when it is put back") {
        ledger.take_module(3);
        CHECK(ledger.largest() == 32);
    }
    SUBCASE("a holder that a tie pulled stays one until a split") {
        ledger.take_module(2);
        ledger.place(2);
        ledger.pull(3);
        ledger.take_module(4);
        CHECK(ledger.largest() == 96);
        ledger.search_again();
        CHECK(ledger.largest() == 32);
    }
}

}  // namespace
