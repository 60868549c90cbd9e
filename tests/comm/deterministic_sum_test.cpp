// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/deterministic_sum.hpp>
#include <shardwise/comm/threads.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

using namespace shardwise;

namespace {

/// The definition, written down once more: halves first, then their sum.
float tree_sum(std::vector<float> const& values, std::size_t begin, std::size_t size) {
    if (size == 1) return values[begin];
    auto const left = tree_sum(values, begin, size / 2);
    return begin + size / 2 < values.size() ? left + tree_sum(values, begin + size / 2, size / 2) : left;
}

}  // namespace

TEST_CASE("sum_nodes: cover a range once, in order, with aligned powers of two that are as large as can be") {
    for (std::int64_t leaves = 1; leaves <= 20; ++leaves) {
        for (std::int64_t begin = 0; begin <= leaves; ++begin) {
            for (std::int64_t end = begin; end <= leaves; ++end) {
                auto const nodes = sum_nodes({begin, end}, leaves);
                auto at = begin;
                for (std::size_t i = 0; i < nodes.size(); ++i) {
                    auto const node = nodes[i];
                    REQUIRE(node.begin == at);
                    REQUIRE(node.begin % node.size == 0);
                    REQUIRE((node.size & (node.size - 1)) == 0);
                    at = node.begin + node.size;
                    bool const is_within = at <= end || end == leaves;
                    REQUIRE(is_within);
                    // The parent does not fit: it begins before the range, ends behind it, or holds no more leaves.
                    auto const parent = node.begin - node.begin % (2 * node.size);
                    bool const fits = parent >= begin && (parent + 2 * node.size <= end || end == leaves) &&
                                      parent + node.size < leaves;
                    REQUIRE_FALSE(fits);
                }
                if (begin < end) REQUIRE((at == end || (at > end && end == leaves)));
            }
        }
    }
}

TEST_CASE(
    "deterministic_sum: the same bits for any number of ranks and any cut between them, as the tree alone gives") {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> values(-1.0F, 1.0F);
    for (std::int64_t const leaves : {1, 2, 3, 8, 13, 32}) {
        constexpr std::int64_t width = 37;
        std::vector<float> rows(static_cast<std::size_t>(leaves * width));
        for (auto& value : rows) value = values(random) * std::exp2f(20.0F * values(random));
        std::vector<float> expected(width);
        auto const root = static_cast<std::size_t>(sum_root(leaves).size);
        for (std::size_t i = 0; i < width; ++i) {
            std::vector<float> column;
            for (std::size_t leaf = 0; leaf < static_cast<std::size_t>(leaves); ++leaf)
                column.push_back(rows[leaf * width + i]);
            expected[i] = tree_sum(column, 0, root);
        }
        for (std::int32_t const ranks : {1, 2, 3, 4, 8}) {
            for (int trial = 0; trial < 4; ++trial) {
                // The even cut, then any.
                std::vector<UnitRange> owners;
                std::int64_t begin = 0;
                for (std::int32_t rank = 0; rank < ranks; ++rank) {
                    auto end = split_units(leaves, ranks, rank).end;
                    if (trial > 0)
                        end = rank + 1 == ranks
                                  ? leaves
                                  : begin + static_cast<std::int64_t>(random() %
                                                                      static_cast<std::uint64_t>(leaves - begin + 1));
                    owners.push_back({begin, end});
                    begin = end;
                }
                std::atomic<int> wrong{0};
                auto const result = run_threads(ranks, [&](Threads& comm) -> Result<> {
                    auto const range = owners[static_cast<std::size_t>(comm.rank())];
                    auto const nodes = static_cast<std::int64_t>(sum_nodes(range, leaves).size());
                    std::vector<float> own(static_cast<std::size_t>(nodes * width));
                    sum_leaves(range, leaves, width, rows.data() + range.begin * width, own.data());
                    std::vector<float> out(width);
                    auto const done =
                        deterministic_sum(comm, owners, TensorView<float const, 1, Host>{own.data(), {nodes * width}},
                                          TensorView<float, 1, Host>{out.data(), {width}});
                    if (!done) return done;
                    if (std::memcmp(out.data(), expected.data(), sizeof(float) * width) != 0) wrong.fetch_add(1);
                    return {};
                });
                CAPTURE(leaves);
                CAPTURE(ranks);
                REQUIRE(result);
                CHECK(wrong.load() == 0);
            }
        }
    }
}

TEST_CASE("deterministic_sum: ranges with gaps and sums that do not belong to them are refused") {
    auto group = ThreadsGroup::create(1).value();
    auto comm = group.join(0).value();
    std::vector<float> own(4);
    std::vector<float> out(2);
    TensorView<float, 1, Host> const result{out.data(), {2}};
    auto const sum = [&](std::vector<UnitRange> const& owners, std::int64_t elements) {
        return deterministic_sum(comm, owners, TensorView<float const, 1, Host>{own.data(), {elements}}, result);
    };
    CHECK(sum({{1, 2}}, 2).error().message().find("gaps") != std::string::npos);
    CHECK(sum({{0, 1}, {1, 2}}, 2).error().code() == ErrorCode::shape_mismatch);
    CHECK(sum({{0, 1}}, 4).error().code() == ErrorCode::shape_mismatch);
    CHECK(sum({{0, 0}}, 0));
    CHECK(out == std::vector<float>{0.0F, 0.0F});
}
