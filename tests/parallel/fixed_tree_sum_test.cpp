// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/deterministic_sum.hpp>
#include <shardwise/parallel/fixed_tree_sum.hpp>

#include <doctest/doctest.h>

#include "parallel_cases.hpp"

#include <algorithm>
#include <string>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// Leaves [leaves, tokens, width]: values of very different magnitudes, so that every order of summation shows.
Floats leaves_of(std::int64_t leaves, std::int64_t tokens, std::int64_t width) {
    auto values = random_floats(leaves * tokens * width, 1);
    auto const sizes = random_floats(leaves * tokens * width, 2, 20.0F);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= std::exp2(sizes[i]);
    return values;
}

Result<std::vector<Floats>> sums_of(Floats const& leaves, std::int64_t count, std::int64_t tokens, std::int64_t width,
                                    std::int32_t ranks, bool is_scattered) {
    return on_ranks(ranks, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
        FixedTreeSum<Host> const tree(count, width, {ranks, comm.rank()});
        auto const own = split_units(tokens, ranks, comm.rank()).size();
        auto const rows = is_scattered ? own : tokens;
        Floats out(index(rows * width), -1.0F);
        Floats workspace(index(is_scattered ? tree.workspace_scattered(tokens) : tree.workspace(tokens)));
        auto const compute = [&](std::int64_t leaf, UnitRange part, TensorView<float, 2, Host> place) -> Result<> {
            auto const* const from = leaves.data() + (leaf * tokens + part.begin) * width;
            std::copy_n(from, part.size() * width, place.data());
            return {};
        };
        auto const done = is_scattered ? tree.sum_scattered(compute, tokens, matrix(out, rows, width),
                                                            vector(workspace), comm, stream)
                                       : tree.sum(compute, matrix(out, rows, width), vector(workspace), comm, stream);
        if (!done) return done.error();
        if (auto const finished = finish(stream); !finished) return finished.error();
        return out;
    });
}

}  // namespace

TEST_CASE("fixed_tree_sum: any ranks get the bits of comm's deterministic_sum, whole, in parts or scattered") {
    struct Shape {
        std::int64_t leaves;
        std::int64_t tokens;
        std::int64_t width;
    };
    // The last one is longer than one shot.
    for (auto const shape :
         {Shape{1, 3, 2}, Shape{2, 1, 5}, Shape{9, 4, 3}, Shape{13, 5, 1}, Shape{64, 2, 3}, Shape{20, 33, 512}}) {
        auto const leaves = leaves_of(shape.leaves, shape.tokens, shape.width);
        auto const size = shape.tokens * shape.width;
        Floats expected(index(size));
        REQUIRE(sum_nodes({0, shape.leaves}, shape.leaves).size() == 1);
        sum_leaves({0, shape.leaves}, shape.leaves, size, leaves.data(), expected.data());
        for (std::int32_t const ranks : {1, 2, 3, 5, 8}) {
            CAPTURE(shape.leaves);
            CAPTURE(ranks);
            auto const whole = sums_of(leaves, shape.leaves, shape.tokens, shape.width, ranks, false);
            REQUIRE(whole);
            for (auto const& each : *whole) CHECK(is_bitwise_equal(each, expected));
            auto const scattered = sums_of(leaves, shape.leaves, shape.tokens, shape.width, ranks, true);
            REQUIRE(scattered);
            Floats rows;
            for (auto const& each : *scattered) rows.insert(rows.end(), each.begin(), each.end());
            CHECK(is_bitwise_equal(rows, expected));
        }
    }
}

TEST_CASE("fixed_tree_sum: memory for the most tokens is enough for fewer, which may need more") {
    for (std::int64_t const ranks : {1, 3, 8}) {
        FixedTreeSum<Host> const tree(64, 512, {ranks, ranks - 1});
        for (std::int64_t const tokens : {1, 31, 33, 40, 500}) {
            std::int64_t most = 0;
            for (std::int64_t fewer = 0; fewer <= tokens; ++fewer) most = std::max(most, tree.workspace(fewer));
            CHECK(tree.max_workspace(tokens) == most);
        }
    }
}

TEST_CASE("fixed_tree_sum: a leaf that cannot be computed and memory that does not fit are the call's errors") {
    auto group = ThreadsGroup::create(1).value();
    auto comm = group.join(0).value();
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    FixedTreeSum<Host> const tree(3, 2, {1, 0});
    Floats out(2);
    Floats workspace(index(tree.workspace(1)));
    auto const refuse = [](std::int64_t leaf, UnitRange, TensorView<float, 2, Host>) -> Result<> {
        if (leaf < 2) return {};
        return Error{ErrorCode::backend_failure}.in("leaf");
    };
    auto const done = tree.sum(refuse, matrix(out, 1, 2), vector(workspace), comm, stream);
    CHECK(done.error().code() == ErrorCode::backend_failure);
    auto const sum = [&](std::int64_t columns, std::int64_t room) {
        return tree.sum(refuse, matrix(out, 1, columns), vector(workspace).part(0, room), comm, stream)
            .error()
            .message();
    };
    CHECK(sum(1, tree.workspace(1)).find("rows and columns") != std::string::npos);
    CHECK(sum(2, tree.workspace(1) - 1).find("workspace") != std::string::npos);
}
