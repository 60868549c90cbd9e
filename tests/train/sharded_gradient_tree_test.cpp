// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/deterministic_sum.hpp>
#include <shardwise/train/gradient_tree.hpp>
#include <shardwise/train/sharded_gradient_tree.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "pair_sample.hpp"
#include "ranks.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// Regions with gaps between them: parameters and a tied name, as training has them.
GradientShares regions(std::vector<std::int64_t> const& sizes) {
    GradientShares out;
    std::int64_t next = 3;
    for (auto const size : sizes) {
        out.add(next, size);
        next += size + 5;
    }
    out.extend_to(next + 7);
    return out;
}

/// Numbers of which every order of adding shows: sizes of 2^-20 to 2^20.
std::vector<float> leaf_of(std::int64_t leaf, std::int64_t elements) {
    auto values = input_numbers(leaf * 7919, elements);
    for (std::size_t i = 0; i < values.size(); ++i) {
        auto const k = (static_cast<std::int64_t>(i) * 37 + leaf * 11) % 41;
        values[i] *= static_cast<float>(std::int64_t{1} << k) * 0x1p-20F;
    }
    return values;
}

std::vector<float> expected_of(std::int64_t leaves, std::int64_t elements) {
    std::vector<float> rows;
    for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
        auto const values = leaf_of(leaf, elements);
        rows.insert(rows.end(), values.begin(), values.end());
    }
    std::vector<float> out(static_cast<std::size_t>(elements));
    sum_leaves({0, leaves}, leaves, elements, rows.data(), out.data());
    return out;
}

Deadline soon() {
    return Deadline::after(std::chrono::seconds(60));
}

bool is_same(float const* a, float const* b, std::int64_t count) {
    return count == 0 || std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(float)) == 0;
}

/// What a rank brings, leaf by leaf, twice in a row; the first time other numbers, one of them undefined.
template <class Tree, class Add>
void fill(Tree& tree, HostStream& stream, std::int64_t count, auto const& number_of, std::int64_t round,
          std::int64_t elements, Add const& add) {
    for (std::int64_t i = 0; i < count; ++i) {
        auto const leaf = number_of(i);
        auto values = leaf_of(round == 0 ? leaf + 1 : leaf, elements);
        if (round == 0 && leaf == 1) values[5] = std::numeric_limits<float>::quiet_NaN();
        auto const at = tree.leaf();
        REQUIRE(at);
        std::copy(values.begin(), values.end(), at->data());
        REQUIRE(add());
        REQUIRE(stream.synchronize(soon()));
    }
}

/// Both trees on some ranks, their memory and their traffic.
void check_ranks(GradientShares const& shares, std::int64_t leaves, std::int32_t ranks,
                 List<Bucket> const& buckets = {}) {
    CAPTURE(leaves);
    CAPTURE(ranks);
    auto const elements = shares.elements();
    auto const expected = expected_of(leaves, elements);
    (void)on_threads(ranks, [&](Threads& comm) {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        TensorPlace const place{ranks, comm.rank()};
        for (auto const result : {TreeResult::whole, TreeResult::share}) {
            auto tree = GradientTree::create(context, shares, leaves, place, result);
            REQUIRE(tree);
            CHECK(context.memory().current() == GradientTree::bytes(shares, leaves, place));
            for (std::int64_t round = 0; round < 2; ++round) {
                auto const own = tree->range();
                fill(
                    *tree, stream, own.size(), [&](auto i) { return own.begin + i; }, round, elements,
                    [&] { return tree->add(stream); });
                comm.traffic().clear();
                auto const sum = tree->sum(comm, stream);
                REQUIRE(sum);
                REQUIRE(stream.synchronize(soon()));
                CHECK(comm.traffic().total() == GradientTree::traffic(shares, leaves, place, result));
                bool const has_bad = round == 0 && own.begin <= 1 && 1 < own.end;
                CHECK(tree->find_bad().has_value() == has_bad);
                if (has_bad) CHECK(*tree->find_bad() == BadElement{0, 2});
                if (round == 0) continue;
                for (std::size_t i = 0; i < shares.regions().size(); ++i) {
                    auto const& region = shares.regions()[i];
                    auto const range = result == TreeResult::whole
                                           ? UnitRange{region.begin, region.begin + region.elements}
                                           : shares.range(i, ranks, comm.rank());
                    CHECK(is_same(sum->data() + range.begin, expected.data() + range.begin, range.size()));
                }
            }
        }
        auto tree = ShardedGradientTree::create(context, shares, leaves, place, buckets);
        REQUIRE(tree);
        CHECK(context.memory().current() == ShardedGradientTree::bytes(shares, leaves, place, buckets));
        detail::ExchangeStream exchanges(std::chrono::seconds(20));
        auto* const beside = buckets.empty() ? nullptr : &exchanges;
        for (std::int64_t round = 0; round < 2; ++round) {
            comm.traffic().clear();
            auto const count = ShardedGradientTree::count(leaves, place);
            fill(
                *tree, stream, count, [&](auto i) { return i * ranks + comm.rank(); }, round, elements,
                [&]() -> Result<> {
                    // Ranks may differ in which buckets they send off before.
                    for (std::int32_t i = 0; beside != nullptr && i <= comm.rank() % 3; ++i) {
                        if (auto const done = tree->reduce(comm, stream, *beside); !done) return done;
                    }
                    CHECK((comm.rank() % 3 != 2 || beside == nullptr || !tree->reduce(comm, stream, *beside)));
                    if (auto const done = tree->add(comm, stream, beside); !done) return done;
                    if (beside != nullptr) beside->join(stream);
                    return {};
                });
            CHECK_FALSE(tree->leaf());
            auto const sum = tree->sum(comm, stream, beside);
            REQUIRE(sum);
            REQUIRE(stream.synchronize(soon()));
            CHECK(comm.traffic().total() == ShardedGradientTree::traffic(shares, leaves, place, buckets));
            CHECK(tree->find_bad().has_value() == (round == 0 && leaves > 1 && comm.rank() == 1 % ranks));
            if (round == 0) continue;
            CHECK(sum->elements() == shares.size(ranks, comm.rank()));
            for (std::size_t i = 0; i < shares.regions().size(); ++i) {
                auto const own = shares.range(i, ranks, comm.rank());
                CHECK(is_same(sum->data() + tree->place(i), expected.data() + own.begin, own.size()));
                for (std::size_t k = 0; k < buckets.size(); ++k) {
                    bool const has = std::count(buckets[k].begin(), buckets[k].end(), static_cast<std::int32_t>(i)) > 0;
                    CHECK((tree->bucket_of(i) == k) == has);
                }
            }
        }
        return 0;
    });
}

}  // namespace

TEST_CASE("ShardedGradientTree: bits, memory and traffic of any leaves on any ranks; where a bad number came from") {
    for (std::int64_t const leaves : {1, 2, 3, 5, 8, 13}) {
        for (std::int32_t const ranks : {1, 2, 3, 4, 6}) {
            if (ranks > leaves) continue;
            check_ranks(regions({700, 1, 0, 300, 256}), leaves, ranks);
            if (ranks > 1) check_ranks(regions({700, 1, 0, 300, 256}), leaves, ranks, {{4, 2}, {3}, {1, 0}});
        }
    }
}

TEST_CASE("ShardedGradientTree: shares that are exchanged in several parts give the same bits") {
    for (std::int32_t const ranks : {2, 3}) {
        auto const round = static_cast<std::size_t>(ranks);
        if (takes_alternative(round, 0, 2)) check_ranks(regions({300'000, 5'000, 1'100'000, 77}), 3, ranks);
        if (takes_alternative(round, 1, 2))
            check_ranks(regions({300'000, 5'000, 1'100'000, 77}), 3, ranks, {{2, 3}, {1}, {0}});
    }
}

TEST_CASE("ShardedGradientTree: a share takes a leaf and sums of its share alone") {
    auto const shares = regions({std::int64_t{1} << 22U});
    TensorPlace const place{8, 0};
    auto const whole = std::int64_t{1} << 24U;
    auto const tree = GradientTree::bytes(shares, 64, place).count();
    auto const sharded = ShardedGradientTree::bytes(shares, 64, place).count();
    // Four sums at a time, and seven of an eighth with one leaf; the exchange takes 4 MiB twice.
    CHECK(tree >= 4 * whole);
    CHECK(sharded <= whole + 7 * whole / 8 + (std::int64_t{8} << 20U) + 4096);
}

TEST_CASE("ShardedGradientTree: missing leaves, and what it cannot be made for, are refused") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const shares = regions({10});
    CHECK_FALSE(ShardedGradientTree::create(context, shares, 0, {1, 0}));
    CHECK_FALSE(ShardedGradientTree::create(context, shares, 3, {2, 2}));
    CHECK_FALSE(ShardedGradientTree::create(context, shares, 3, {2, 1}, {{0, 1}}));
    auto overlapping = shares;
    overlapping.add(4, 3);
    CHECK_FALSE(GradientTree::create(context, overlapping, 3, {1, 0}, TreeResult::whole));
    CHECK_FALSE(ShardedGradientTree::create(context, overlapping, 3, {1, 0}));
    auto tree = ShardedGradientTree::create(context, shares, 3, {1, 0});
    REQUIRE(tree);
    (void)on_threads(1, [&](Threads& comm) {
        CHECK(tree->sum(comm, stream).error().message() ==
              "gradient tree: leaves of the batch are missing (got 0, expected 3)");
        return 0;
    });
    (void)on_threads(2, [&](Threads& comm) {
        if (comm.rank() == 0)
            CHECK(tree->add(comm, stream).error().message().find("another group") != std::string::npos);
        return 0;
    });
}
