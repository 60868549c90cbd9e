// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/parameter_shard.hpp>

#include <doctest/doctest.h>

#include "arch/golden_cases.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace shardwise;

namespace {

/// The ranges that all ranks have of a dimension, and that each element is owned by one.
void check_dimension(Tensor const& tensor, std::size_t dim, std::int64_t tp, std::int64_t ep) {
    std::vector<UnitRange> owned;
    std::vector<UnitRange> held;
    bool const is_stack = dim == 0 && tensor.shard.experts > 0;
    // Ranks of the other kind hold the same of this dimension.
    for (std::int64_t rank = 0; rank < (is_stack ? ep : tp); ++rank) {
        ParameterShard const shard(tensor, tp, is_stack ? 0 : rank, ep, is_stack ? rank : 0);
        std::int64_t size = 0;
        shard.for_each_range(dim, false, [&](UnitRange range) {
            size += range.size();
            if (range.size() > 0) held.push_back(range);
        });
        if (size != shard.extent(dim)) FAIL("ranges of another size than the extent: ", tensor.name);
        shard.for_each_range(dim, true, [&](UnitRange range) {
            if (range.size() > 0) owned.push_back(range);
        });
    }
    auto const by_begin = [](UnitRange const& a, UnitRange const& b) { return a.begin < b.begin; };
    std::sort(owned.begin(), owned.end(), by_begin);
    std::sort(held.begin(), held.end(), by_begin);
    bool const is_split = tensor.shard.is_shared() && dim == tensor.shard.dim;
    std::int64_t next = 0;
    for (auto const& range : owned) {
        if (range.begin != (is_split || is_stack ? next : 0)) FAIL("owned twice, or by nobody: ", tensor.name);
        next = range.end;
    }
    CHECK(next == tensor.shape[dim]);
    // Held by several ranks are key-value heads alone.
    next = 0;
    bool overlaps = false;
    for (auto const& range : held) {
        if (range.begin > next) FAIL("held by nobody: ", tensor.name);
        overlaps = overlaps || range.begin < next;
        next = std::max(next, range.end);
    }
    CHECK(next == tensor.shape[dim]);
    if (is_split && overlaps) CHECK(tensor.shard.has_kv_heads());
}

}  // namespace

TEST_CASE("ParameterShard: the shards of all ranks are the tensor, and each element is owned once") {
    golden::for_each_case([](golden::Json const&, Model const& model) {
        for (auto const& tensor : model.tree.tensors()) {
            CAPTURE(tensor.name);
            for (std::int64_t tp = 1; tp <= 8; ++tp) {
                for (std::int64_t const ep : {1, 3}) {
                    if (ep > 1 && tensor.shard.experts == 0) continue;
                    for (std::size_t dim = 0; dim < tensor.shape.rank(); ++dim) check_dimension(tensor, dim, tp, ep);
                }
            }
        }
    });
}

TEST_CASE("ParameterShard: heads that lie in groups are where the file has them") {
    // Two groups of [2 queries, key, value] of one row each.
    Tensor const qkv{.name = "weight", .shape = {8, 3}, .shard = ShardRule::grouped_qkv(0, 4, 2)};
    std::vector<std::int64_t> rows;
    auto const take = [&](UnitRange range) {
        for (auto row = range.begin; row < range.end; ++row) rows.push_back(row);
    };
    ParameterShard(qkv, 2, 1).for_each_range(0, false, take);
    CHECK(rows == std::vector<std::int64_t>{4, 5, 6, 7});
    rows.clear();
    // Of four ranks two have each key; the first of them owns it.
    ParameterShard(qkv, 4, 3).for_each_range(0, false, take);
    CHECK(rows == std::vector<std::int64_t>{5, 6, 7});
    rows.clear();
    ParameterShard(qkv, 4, 3).for_each_range(0, true, take);
    CHECK(rows == std::vector<std::int64_t>{5});
}
