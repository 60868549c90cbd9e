// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/eigen_view.hpp>
#include <shardwise/backend/host/products.hpp>

#include <Eigen/Core>
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <numeric>
#include <type_traits>

namespace {

using namespace shardwise;
using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// A temporary matrix dies before its view; a map or a block of a named one does not.
template <class T>
concept ViewedAsMatrix = requires {
    matrix_view(std::declval<T>());
};
static_assert(ViewedAsMatrix<RowMatrix&> && ViewedAsMatrix<RowMatrix const&> && !ViewedAsMatrix<RowMatrix>);
static_assert(ViewedAsMatrix<Eigen::Map<RowMatrix>>);
static_assert(!ViewedAsMatrix<Eigen::MatrixXf&>);  // column-major

TEST_CASE("A view and Eigen's map of it are the same memory, rows apart included") {
    std::array<float, 12> memory{};
    std::iota(memory.begin(), memory.end(), 0.0F);
    TensorView<float, 2, Host> const all{memory.data(), {3, 4}};
    auto map = to_eigen(all.columns(1, 2));
    CHECK(map.rows() == 3);
    CHECK(map.cols() == 2);
    CHECK(map(2, 1) == 10.0F);
    map(1, 0) = 50.0F;
    CHECK(memory[5] == 50.0F);

    auto const vector = to_eigen(TensorView<float const, 1, Host>(memory.data(), {4}));
    CHECK(vector.sum() == 6.0F);
    static_assert(std::is_same_v<decltype(vector.data()), float const*>);
}

TEST_CASE("Matrices, blocks and vectors of Eigen are views without a copy") {
    RowMatrix matrix(3, 4);
    for (int i = 0; i < 12; ++i) matrix.data()[i] = static_cast<float>(i);
    auto const whole = matrix_view(matrix);
    REQUIRE(whole);
    CHECK(whole->data() == matrix.data());
    CHECK(whole->is_dense());

    auto const block = matrix_view(matrix.block(1, 1, 2, 3));
    REQUIRE(block);
    CHECK(block->extents() == std::array<std::int64_t, 2>{2, 3});
    CHECK(block->stride(0) == 4);
    CHECK(block->row(1)[0] == 9.0F);

    RowMatrix const& fixed = matrix;
    static_assert(std::is_same_v<decltype(matrix_view(fixed)->data()), float const*>);

    Eigen::VectorXf column = Eigen::VectorXf::LinSpaced(5, 0.0F, 4.0F);
    auto const part = vector_view(column.segment(2, 3));
    REQUIRE(part);
    CHECK(part->data() == column.data() + 2);
    CHECK(part->extent(0) == 3);

    // A column-major matrix is the transposed row-major one.
    Eigen::MatrixXf other(2, 3);
    other << 0, 1, 2, 3, 4, 5;
    auto const transposed = matrix_view(other.transpose());
    REQUIRE(transposed);
    CHECK(transposed->extents() == std::array<std::int64_t, 2>{3, 2});
    CHECK(transposed->row(1)[1] == 4.0F);
}

TEST_CASE("Products are Eigen's, within the bound of two sums of their length") {
    auto const roundings = [](auto inner) { return 2.0F * static_cast<float>(inner + 2) * 0x1p-24F; };
    RowMatrix const a = RowMatrix::Random(7, 300);
    RowMatrix const b = RowMatrix::Random(33, 300);
    RowMatrix out(7, 33);
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    REQUIRE(Host::gemm<float>(*matrix_view(a), *matrix_view(b), *matrix_view(out), {.is_b_transposed = true}, stream));
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(10))));
    RowMatrix const expected = a * b.transpose();
    RowMatrix const bound = a.cwiseAbs() * b.cwiseAbs().transpose() * roundings(300);
    CHECK(((out - expected).cwiseAbs().array() <= bound.array()).all());
}

TEST_CASE("Elements that do not lie side by side are refused") {
    RowMatrix matrix = RowMatrix::Zero(3, 4);
    auto const column = vector_view(matrix.col(1));
    REQUIRE_FALSE(column);
    CHECK(column.error().code() == ErrorCode::shape_mismatch);
    Eigen::Map<RowMatrix, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> sparse(
        matrix.data(), 3, 2, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(4, 2));
    auto const apart = matrix_view(sparse);
    REQUIRE_FALSE(apart);
    CHECK(apart.error().message().find("side by side") != std::string::npos);
}

}  // namespace
