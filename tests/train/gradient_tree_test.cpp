// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/train/gradient_tree.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "ranks.hpp"

#include <bit>
#include <cmath>
#include <cstring>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// Gradients of very different sizes, so that every order of adding shows.
std::vector<float> leaf_of(std::int64_t leaf, std::int64_t elements) {
    auto values = input_numbers(leaf * 7919, elements);
    auto const sizes = input_numbers(leaf * 31 + 5, elements);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= std::exp2(std::round(sizes[i] * 40.0F));
    return values;
}

struct Sum {
    std::vector<float> values;
    std::int64_t bytes = 0;
    bool is_planned = false;
};

/// What each rank gets; twice in a row, to see that a tree begins anew.
std::vector<Sum> sums_of(std::int64_t leaves, std::int64_t elements, std::int32_t ranks, TreeResult result) {
    return on_threads(ranks, [&](Threads& comm) {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        TensorPlace const place{ranks, comm.rank()};
        auto tree = GradientTree::create(context, elements, leaves, place, result);
        REQUIRE(tree);
        Sum sum;
        sum.is_planned = context.memory().current() == GradientTree::bytes(elements, leaves, place);
        for (int round = 0; round < 2; ++round) {
            auto const range = tree->range();
            for (auto leaf = range.begin; leaf < range.end; ++leaf) {
                auto const at = tree->leaf();
                REQUIRE(at);
                auto const values = leaf_of(leaf + round, elements);
                std::copy(values.begin(), values.end(), at->data());
                REQUIRE(tree->add(stream));
            }
            CHECK_FALSE(tree->leaf());
            comm.traffic().clear();
            auto const total = tree->sum(comm, stream);
            REQUIRE(total);
            REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(20))));
            sum.bytes = comm.traffic().total().bytes;
            sum.values.assign(total->data(), total->data() + total->elements());
        }
        return sum;
    });
}

std::vector<float> expected_of(std::int64_t leaves, std::int64_t elements) {
    std::vector<float> rows;
    for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
        auto const values = leaf_of(leaf + 1, elements);
        rows.insert(rows.end(), values.begin(), values.end());
    }
    std::vector<float> out(static_cast<std::size_t>(elements));
    sum_leaves({0, leaves}, leaves, elements, rows.data(), out.data());
    return out;
}

bool is_same(std::vector<float> const& a, std::vector<float> const& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE("GradientTree: any ranks get the bits of the tree over the leaves, whole or their shares") {
    for (std::int64_t const leaves : {1, 2, 3, 5, 7, 8, 12, 13}) {
        for (std::int64_t const elements : {1, 700}) {
            auto const expected = expected_of(leaves, elements);
            for (std::int32_t const ranks : {1, 2, 3, 4, 6}) {
                CAPTURE(leaves);
                CAPTURE(ranks);
                for (auto const& each : sums_of(leaves, elements, ranks, TreeResult::whole)) {
                    CHECK(is_same(each.values, expected));
                    CHECK(each.is_planned);
                }
                std::vector<float> joined;
                for (auto const& each : sums_of(leaves, elements, ranks, TreeResult::share)) {
                    joined.insert(joined.end(), each.values.begin(), each.values.end());
                    CHECK(each.is_planned);
                }
                CHECK(is_same(joined, expected));
            }
        }
    }
}

TEST_CASE("GradientTree: the counter leaves the nodes of the tree, within its buffers") {
    for (std::int64_t leaves = 1; leaves <= 40; ++leaves) {
        for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
                auto const range = split_units(leaves, ranks, rank);
                auto const most = GradientTree::buffers(range, leaves);
                CHECK(most >= static_cast<std::int64_t>(sum_nodes(range, leaves).size()));
                auto const levels = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(range.size())));
                CHECK(most <= 2 * levels);
                // A whole node: one sum for each level, and the leaf.
                if (range.begin % 64 == 0 && range.end == leaves &&
                    std::has_single_bit(static_cast<std::uint64_t>(leaves)))
                    CHECK(most == levels);
            }
        }
    }
}

TEST_CASE("GradientTree: a bucket is exchanged while others of the last leaf are still computed, with the same bits") {
    List<Bucket> const buckets{{4, 2}, {3}, {0, 1}};
    std::int64_t const ends[] = {10, 40, 300, 301, 700};
    GradientShares shares;
    for (std::size_t i = 0; i < 5; ++i) shares.add(i == 0 ? 0 : ends[i - 1], ends[i] - (i == 0 ? 0 : ends[i - 1]));
    for (std::int64_t const leaves : {2, 3, 5, 8}) {
        auto const expected = expected_of(leaves, 700);
        for (auto const result : {TreeResult::whole, TreeResult::share}) {
            CAPTURE(leaves);
            auto const sums = on_threads(2, [&](Threads& comm) {
                HostContext context({.threads = 1, .streams = StreamMode::queued});
                auto stream = context.make_stream();
                shardwise::detail::ExchangeStream beside(std::chrono::seconds(20));
                TensorPlace const place{2, comm.rank()};
                auto tree = GradientTree::create(context, shares, leaves, place, result, buckets);
                REQUIRE(tree);
                CHECK(context.memory().current() == GradientTree::bytes(shares, leaves, place, buckets));
                CHECK(tree->buckets() == 3);
                CHECK(tree->bucket_of(2) == 0);
                auto const range = tree->range();
                for (auto leaf = range.begin; leaf < range.end; ++leaf) {
                    auto const values = leaf_of(leaf + 1, 700);
                    auto const at = *tree->leaf();
                    bool const is_last = leaf + 1 == range.end;
                    CHECK(tree->is_last() == is_last);
                    CHECK(stream.synchronize(Deadline::after(std::chrono::seconds(20))));
                    if (!is_last) {
                        CHECK_FALSE(tree->reduce(comm, stream, beside));
                        std::copy(values.begin(), values.end(), at.data());
                        CHECK(tree->add(stream));
                        continue;
                    }
                    // As slowly as something is computed.
                    auto const write = [&](std::int64_t begin, std::int64_t end) {
                        stream.submit([values, begin, end, to = at.data()] {
                            std::this_thread::sleep_for(std::chrono::milliseconds(2));
                            std::copy(values.begin() + begin, values.begin() + end, to + begin);
                            return Result<>{};
                        });
                    };
                    std::fill_n(at.data(), 700, 1e30F);
                    write(40, 300);
                    write(301, 700);
                    CHECK(tree->reduce(comm, stream, beside));
                    // The others are written once this rank has what the other one sent of the first.
                    CHECK(beside.synchronize(Deadline::after(std::chrono::seconds(20))));
                    write(300, 301);
                    CHECK(tree->reduce(comm, stream, beside));
                    CHECK(tree->reduced() == 2);
                    write(0, 40);
                    // Ranks may differ in what they leave to the end.
                    if (comm.rank() == 0) {
                        CHECK(tree->reduce(comm, stream, beside));
                        CHECK_FALSE(tree->reduce(comm, stream, beside));
                    }
                    CHECK(tree->add(stream));
                    // And what was added can be sent off, too.
                    if (comm.rank() == 1 && result == TreeResult::whole) CHECK(tree->reduce(comm, stream, beside));
                }
                auto const total = tree->sum(comm, stream, &beside);
                REQUIRE(total);
                CHECK(stream.synchronize(Deadline::after(std::chrono::seconds(20))));
                CHECK(comm.traffic().total() == GradientTree::traffic(shares, leaves, place, result, buckets));
                std::vector<float> out(total->data(), total->data() + 700);
                if (result == TreeResult::whole) return out;
                // What the rank owns.
                std::vector<float> own(700);
                for (std::size_t i = 0; i < 5; ++i) {
                    auto const part = shares.range(i, 2, comm.rank());
                    std::copy(out.begin() + part.begin, out.begin() + part.end, own.begin() + part.begin);
                }
                return own;
            });
            if (result == TreeResult::whole) CHECK(is_same(sums[0], expected));
            if (result == TreeResult::whole) CHECK(is_same(sums[1], expected));
            if (result == TreeResult::whole) continue;
            auto joined = sums[0];
            for (std::size_t i = 0; i < 700; ++i) joined[i] = joined[i] == 0.0F ? sums[1][i] : joined[i];
            CHECK(is_same(joined, expected));
        }
    }
    HostContext context({.threads = 1});
    for (auto const& wrong : {List<Bucket>{{0, 1}, {2, 3}}, List<Bucket>{{0, 1, 2}, {3, 4, 4}},
                              List<Bucket>{{0, 1, 2}, {3, 5}}, List<Bucket>{{0, 1, 2}, {3, -1}}})
        CHECK_FALSE(GradientTree::create(context, shares, 4, {2, 0}, TreeResult::whole, wrong));
}

TEST_CASE("GradientTree: micro-batches that sum their leaves to one node leave the bits of single leaves") {
    for (std::int64_t const leaves : {3, 4, 7, 12, 16}) {
        auto const expected = expected_of(leaves, 50);
        for (std::int32_t const ranks : {1, 2, 3}) {
            for (std::int64_t const most : {2, 4, 8}) {
                CAPTURE(leaves);
                CAPTURE(ranks);
                auto const sums = on_threads(ranks, [&](Threads& comm) {
                    HostContext context({.threads = 1});
                    auto stream = context.make_stream();
                    auto tree = GradientTree::create(context, 50, leaves, {ranks, comm.rank()}, TreeResult::whole);
                    auto const range = tree->range();
                    for (auto leaf = range.begin; leaf < range.end;) {
                        // The largest node of at most `most` leaves, in the order of sum_nodes.
                        std::int64_t count = most;
                        while (leaf % count != 0 || leaf + count > range.end) count /= 2;
                        if (range.end == leaves && leaf % most == 0 && leaves - leaf < most) count = leaves - leaf;
                        std::vector<float> rows;
                        for (std::int64_t i = 0; i < count; ++i) {
                            auto const values = leaf_of(leaf + i + 1, 50);
                            rows.insert(rows.end(), values.begin(), values.end());
                        }
                        sum_leaves({0, count}, count, 50, rows.data(), tree->leaf()->data());
                        REQUIRE(tree->add(stream, count));
                        leaf += count;
                    }
                    auto const sum = tree->sum(comm, stream);
                    REQUIRE(sum);
                    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(20))));
                    return std::vector<float>(sum->data(), sum->data() + 50);
                });
                for (auto const& sum : sums) CHECK(is_same(sum, expected));
            }
        }
    }
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto tree = GradientTree::create(context, 5, 8, {2, 0}, TreeResult::whole);
    CHECK_FALSE(tree->add(stream, 0));
    CHECK_FALSE(tree->add(stream, 3));
    CHECK_FALSE(tree->add(stream, 8));
    REQUIRE(tree->add(stream));
    CHECK(tree->add(stream, 2).error().message() ==
          "gradient tree: leaves: after leaf 1 are no node of the tree (got 2); add powers of two that begin at a "
          "multiple of "
          "themselves");
    CHECK(tree->add(stream, 1));
    CHECK(tree->add(stream, 2));
}

TEST_CASE("GradientTree: a sum that was given up leaves nothing in the next one") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto tree = GradientTree::create(context, 50, 3, {1, 0}, TreeResult::whole);
    auto const group = ThreadsGroup::create(1);
    auto comm = group->join(0);
    auto const add = [&](std::int64_t leaf) {
        auto const values = leaf_of(leaf, 50);
        std::copy(values.begin(), values.end(), tree->leaf()->data());
        REQUIRE(tree->add(stream));
        REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(20))));
    };
    add(3);
    add(3);
    tree->clear();
    CHECK(tree->added() == 0);
    for (std::int64_t leaf = 1; leaf <= 3; ++leaf) add(leaf);
    auto const sum = tree->sum(*comm, stream);
    REQUIRE(sum);
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(20))));
    CHECK(is_same({sum->data(), sum->data() + 50}, expected_of(3, 50)));
}

TEST_CASE("GradientTree: where each rank's leaves are one node, the bytes are those of a reduce-scatter") {
    for (std::int32_t const ranks : {2, 4}) {
        std::int64_t const elements = 256 * 8;
        for (auto const& each : sums_of(8, elements, ranks, TreeResult::share))
            CHECK(each.bytes == (ranks - 1) * elements / ranks * static_cast<std::int64_t>(sizeof(float)));
    }
}

TEST_CASE("GradientTree: missing leaves, and what it cannot be made for, are refused") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto tree = GradientTree::create(context, 10, 3, {1, 0}, TreeResult::whole);
    REQUIRE(tree);
    REQUIRE(tree->add(stream));
    (void)on_threads(1, [&](Threads& comm) {
        CHECK(tree->sum(comm, stream).error().message() ==
              "gradient tree: leaves of the batch are missing (got 1, expected 3)");
        return 0;
    });
    CHECK_FALSE(GradientTree::create(context, -1, 3, {1, 0}, TreeResult::whole));
    CHECK_FALSE(GradientTree::create(context, 1, 0, {1, 0}, TreeResult::whole));
    CHECK_FALSE(GradientTree::create(context, 1, 3, {2, 2}, TreeResult::whole));
    CHECK(GradientTree::create(context, INT64_MAX, 3, {1, 0}, TreeResult::whole).error().code() ==
          ErrorCode::size_overflow);
}
