// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/backward/embedding.hpp>

#include <doctest/doctest.h>

#include "gradients.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// Each addition rounds once: as many as an id has tokens.
Expected expected_of(std::vector<std::int32_t> const& ids, Matrix<float> const& out_gradient, std::int64_t rows,
                     std::int64_t first_row) {
    Expected made(rows, out_gradient.width);
    std::vector<double> times(static_cast<std::size_t>(rows));
    for (auto const id : ids) {
        if (id >= first_row && id < first_row + rows) times[static_cast<std::size_t>(id - first_row)] += 1.0;
    }
    for (std::size_t token = 0; token < ids.size(); ++token) {
        auto const row = ids[token] - first_row;
        if (row < 0 || row >= rows) continue;
        for (std::int64_t i = 0; i < made.width; ++i) {
            auto const value = out_gradient.at(static_cast<std::int64_t>(token), i);
            made.add(row, i, value, times[static_cast<std::size_t>(row)] * rounding * std::abs(value));
        }
    }
    return made;
}

}  // namespace

TEST_CASE(
    "embedding_backward: rows are added in the order of the tokens, whatever the threads; shards have their own") {
    std::vector<std::int32_t> const few{2, 0, 2, 5, 2};
    check_torch(expected_of(few, numbered_matrix(5, 4, 51), 6, 0), "embedding");
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 700; ++i) ids.push_back(i * i % 37 - 1);
    auto const out_gradient = numbered_matrix(700, 133, 51);
    for (std::int64_t const first_row : {0, 12}) {
        for (bool const is_added : {false, true}) {
            auto const before = numbered_matrix(20, 133, 52);
            auto made = before;
            for_levels_and_threads(
                [&](HostStream& stream) {
                    made = before;
                    REQUIRE(embedding_backward({ids.data(), {700}}, out_gradient.read(), made.view(), is_added, stream,
                                               first_row));
                    auto expected = expected_of(ids, out_gradient, 20, first_row);
                    // What was there is a part of each sum.
                    for (std::size_t i = 0; i < expected.values.size() && is_added; ++i)
                        expected.allowed[i] += 60.0 * rounding * std::abs(static_cast<double>(before.values[i]));
                    check_bounds(made, expected, is_added ? &before : nullptr);
                },
                [&] { return std::vector{made}; });
            // The order of the tokens, one rounding after another.
            auto in_order = before;
            if (!is_added) in_order.values.assign(in_order.values.size(), 0.0F);
            for (std::size_t token = 0; token < ids.size(); ++token) {
                auto const row = ids[token] - first_row;
                if (row < 0 || row >= 20) continue;
                for (std::size_t i = 0; i < 133; ++i)
                    in_order.values[static_cast<std::size_t>(row) * 133 + i] += out_gradient.values[token * 133 + i];
            }
            CHECK(are_same_bits(made, in_order));
        }
    }
}

TEST_CASE("embedding_backward: a gradient of another shape is refused by its name") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    std::vector<std::int32_t> const ids{0, 1};
    auto table = numbered_matrix(3, 4, 1);
    auto const gradient = numbered_matrix(2, 5, 2);
    auto const refused = embedding_backward({ids.data(), {2}}, gradient.read(), table.view(), false, stream);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("out_gradient") != std::string::npos);
}
