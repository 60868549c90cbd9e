// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/tensor_view.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>

namespace {

using namespace shardwise;

struct Anywhere;
using Matrix = TensorView<float, 2, Anywhere>;
using Block = TensorView<float, 3, Anywhere>;

TEST_CASE("TensorView: elements are dense where a flat view shows the same, whatever is said where nothing follows") {
    std::array<float, 24> memory{};
    auto* const data = memory.data();
    CHECK(Matrix(data, {4, 6}).is_dense());
    CHECK_FALSE(Matrix(data, {4, 5}, 6).is_dense());
    CHECK_FALSE(Matrix(data, {4, 6}, 0).is_dense());
    CHECK(Block(data, {2, 3, 4}).is_dense());
    CHECK_FALSE(Block(data, {2, 2, 4}, {12, 4, 1}).is_dense());
    // One row has no next.
    CHECK(Matrix(data, {1, 6}, -7).is_dense());
    CHECK(Block(data, {2, 1, 4}, {4, 99, 1}).is_dense());
    // What has no elements has no gaps: a rank's share of the columns may be none.
    CHECK(Matrix(data, {4, 6}).columns(6, 0).is_dense());
    CHECK(Matrix(data, {0, 5}, 6).is_dense());
    CHECK(Block(nullptr, {2, 0, 4}, {7, 7, 1}).is_dense());
}

TEST_CASE("TensorView: rows and columns of a matrix are where they were") {
    std::array<float, 24> memory{};
    Matrix const all(memory.data(), {4, 6});
    auto const part = all.columns(2, 3).rows(1, 2);
    CHECK(part.extents() == std::array<std::int64_t, 2>{2, 3});
    CHECK(part.stride(0) == 6);
    CHECK(part.row(1) == memory.data() + 14);
    CHECK(part.elements() == 6);
    TensorView<float const, 2, Anywhere> const readable = part;
    CHECK(readable.row(1) == part.row(1));
    CHECK(all.rows(4, 0).empty());
}

}  // namespace
