// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/stages.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace shardwise;

namespace {

std::int64_t heaviest(List<Bytes> const& layers, List<std::int64_t> const& begins) {
    std::int64_t most = 0;
    for (std::size_t stage = 0; stage + 1 < begins.size(); ++stage) {
        std::int64_t sum = 0;
        for (auto i = begins[stage]; i < begins[stage + 1]; ++i) sum += layers[static_cast<std::size_t>(i)].count();
        most = std::max(most, sum);
    }
    return most;
}

/// The lightest heaviest stage, by trying every cut.
std::int64_t best_cut(List<Bytes> const& layers, std::size_t from, std::int64_t stages) {
    if (stages == 1) {
        std::int64_t sum = 0;
        for (auto i = from; i < layers.size(); ++i) sum += layers[i].count();
        return sum;
    }
    auto best = INT64_MAX;
    std::int64_t head = 0;
    for (auto next = from + 1; next + static_cast<std::size_t>(stages) - 1 <= layers.size(); ++next) {
        head += layers[next - 1].count();
        best = std::min(best, std::max(head, best_cut(layers, next, stages - 1)));
    }
    return best;
}

}  // namespace

TEST_CASE("stages: equal layers are spread evenly") {
    List<Bytes> const layers(8, 10_B);
    CHECK(split_stages(layers, 4) == List<std::int64_t>{0, 2, 4, 6, 8});
    CHECK(split_stages(layers, 1) == List<std::int64_t>{0, 8});
    CHECK(split_stages(layers, 8) == List<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("stages: heavy ends, where embedding and head are, get fewer layers") {
    List<Bytes> layers(10, 10_B);
    layers.front() = 40_B;
    layers.back() = 40_B;
    CHECK(split_stages(layers, 3) == List<std::int64_t>{0, 3, 9, 10});  // 60, 60, 40: the first hold most
}

TEST_CASE("stages: every cut is contiguous, has a layer in each stage, and no other has a lighter heaviest stage") {
    std::mt19937 random(5);
    std::uniform_int_distribution<std::int64_t> size(0, 20);
    for (int round = 0; round < 2000; ++round) {
        List<Bytes> layers;
        for (int i = 0; i < 1 + round % 9; ++i) layers.push_back(Bytes{size(random)});
        auto const stages = 1 + static_cast<std::int64_t>(random() % layers.size());
        auto const begins = split_stages(layers, stages);
        REQUIRE(begins.size() == static_cast<std::size_t>(stages) + 1);
        REQUIRE(begins.front() == 0);
        REQUIRE(begins.back() == static_cast<std::int64_t>(layers.size()));
        for (std::size_t i = 0; i + 1 < begins.size(); ++i) REQUIRE(begins[i] < begins[i + 1]);
        REQUIRE(heaviest(layers, begins) == best_cut(layers, 0, stages));
    }
}
