// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <Eigen/Core>

#include <type_traits>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A row-major matrix of Eigen in somebody else's memory, whose rows may lie apart.
template <class T>
using EigenMatrixMap = Eigen::Map<
    std::conditional_t<std::is_const_v<T>,
                       Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> const,
                       Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>,
    Eigen::Unaligned, Eigen::OuterStride<>>;
/// A column vector of Eigen in somebody else's memory.
template <class T>
using EigenVectorMap =
    Eigen::Map<std::conditional_t<std::is_const_v<T>, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1> const,
                                  Eigen::Matrix<T, Eigen::Dynamic, 1>>>;

/// The same memory as Eigen sees it, without a copy.
template <class T>
[[nodiscard]] EigenMatrixMap<T> to_eigen(TensorView<T, 2, Host> view) {
    return {view.data(), view.extent(0), view.extent(1), Eigen::OuterStride<>(view.stride(0))};
}
template <class T>
[[nodiscard]] EigenVectorMap<T> to_eigen(TensorView<T, 1, Host> view) {
    return {view.data(), view.extent(0)};
}

namespace detail {

template <class Dense>
using EigenElement = std::remove_pointer_t<decltype(std::declval<Dense&>().data())>;

/// Elements that outlive the expression: of a named matrix, or of a map or a block of one.
template <class Dense>
concept LastingElements = std::is_lvalue_reference_v<Dense> ||
    !std::is_base_of_v<Eigen::PlainObjectBase<std::remove_cvref_t<Dense>>, std::remove_cvref_t<Dense>>;

template <class Dense>
concept EigenVector = bool(std::remove_cvref_t<Dense>::IsVectorAtCompileTime) && LastingElements<Dense>;
template <class Dense>
concept EigenRows = bool(std::remove_cvref_t<Dense>::IsRowMajor) &&
                    !bool(std::remove_cvref_t<Dense>::IsVectorAtCompileTime) && LastingElements<Dense>;

}  // namespace detail

/// A matrix, map or block of Eigen as kernels take it, without a copy: const where Eigen's is. A column-major matrix is the
/// transposed row-major one: pass its transpose().
///
/// Memory  `dense` owns the elements and outlives the view
/// Errors  shape_mismatch where neighbours of a row do not lie side by side
template <detail::EigenRows Dense>
[[nodiscard]] Result<TensorView<detail::EigenElement<Dense>, 2, Host>> matrix_view(Dense&& dense) {
    if (dense.innerStride() != 1 && dense.cols() > 1) {
        return Error{ErrorCode::shape_mismatch}
            .in("matrix_view")
            .because("the elements of a row do not lie side by side")
            .got(dense.innerStride())
            .expected(1)
            .fix("copy it into a dense matrix first");
    }
    return TensorView<detail::EigenElement<Dense>, 2, Host>(dense.data(), {dense.rows(), dense.cols()},
                                                            dense.outerStride());
}

/// A vector, map or segment of Eigen as kernels take it, without a copy: const where Eigen's is.
///
/// Memory  `dense` owns the elements and outlives the view
/// Errors  shape_mismatch where neighbours do not lie side by side
template <detail::EigenVector Dense>
[[nodiscard]] Result<TensorView<detail::EigenElement<Dense>, 1, Host>> vector_view(Dense&& dense) {
    if (dense.innerStride() != 1 && dense.size() > 1) {
        return Error{ErrorCode::shape_mismatch}
            .in("vector_view")
            .because("the elements do not lie side by side")
            .got(dense.innerStride())
            .expected(1)
            .fix("copy it into a dense vector first");
    }
    return TensorView<detail::EigenElement<Dense>, 1, Host>(dense.data(), {dense.size()});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
