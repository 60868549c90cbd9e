// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A matrix of a backward kernel that has the shape of another; `name` is its parameter.
template <class T>
[[nodiscard]] Result<> check_shape(std::string_view kernel, std::string_view name, TensorView<T, 2, Host> const& matrix,
                                   std::int64_t rows, std::int64_t width) {
    Error error{ErrorCode::shape_mismatch};
    error.in(kernel).at(name);
    if (matrix.extent(0) != rows)
        return error.because("has another number of rows than the input").got(matrix.extent(0)).expected(rows);
    if (matrix.extent(1) != width)
        return error.because("is not as wide as the input").got(matrix.extent(1)).expected(width);
    return {};
}

/// The same where the gradient may be left out.
[[nodiscard]] inline Result<> check_optional(std::string_view kernel, std::string_view name,
                                             TensorView<float, 2, Host> const& matrix, std::int64_t rows,
                                             std::int64_t width) {
    return matrix.empty() ? Result<>{} : check_shape(kernel, name, matrix, rows, width);
}

/// A vector with an element for each column, or where it may be left out none.
template <class T>
[[nodiscard]] Result<> check_columns(std::string_view kernel, std::string_view name,
                                     TensorView<T, 1, Host> const& vector, std::int64_t width, bool is_optional) {
    if (vector.elements() == width || (is_optional && vector.empty())) return {};
    return Error{ErrorCode::shape_mismatch}
        .in(kernel)
        .at(name)
        .because("does not have one element per column")
        .got(vector.elements())
        .expected(width);
}

[[nodiscard]] inline Error small_workspace(std::string_view kernel, std::int64_t got, std::int64_t needed) {
    return Error{ErrorCode::shape_mismatch}
        .in(kernel)
        .at("workspace")
        .because("is too small")
        .got(got)
        .at_least(needed);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
