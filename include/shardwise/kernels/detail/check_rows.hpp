// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <limits>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A kernel that maps rows to rows of the same width, with parameters of that width.
template <class T, class Backend>
[[nodiscard]] Result<> check_rows(std::string_view kernel, TensorView<T const, 2, Backend> const& in,
                                  std::int64_t parameters, TensorView<T, 2, Backend> const& out) {
    if (auto const known = check_views(kernel, in, out); !known) return known;
    auto const refused = [&] { return Error{ErrorCode::shape_mismatch}.in(kernel); };
    if (in.extent(0) != out.extent(0)) {
        return refused()
            .because("the output has another number of rows than the input")
            .got(out.extent(0))
            .expected(in.extent(0));
    }
    if (in.extent(1) != out.extent(1)) {
        return refused().because("the output is not as wide as the input").got(out.extent(1)).expected(in.extent(1));
    }
    if (parameters != in.extent(1)) {
        return refused().because("the parameters are not as wide as a row").got(parameters).expected(in.extent(1));
    }
    return {};
}

/// A bias is none or as wide as a row.
template <class T, class Backend>
[[nodiscard]] Result<> check_bias(std::string_view kernel, TensorView<T const, 1, Backend> const& bias,
                                  std::int64_t width) {
    if (bias.empty() || bias.elements() == width) return {};
    return Error{ErrorCode::shape_mismatch}
        .in(kernel)
        .because("the bias is not as wide as a row")
        .got(bias.elements())
        .expected(width);
}

/// Weights of heads, rows of them, are dense and as wide as a row; rows, fewer than 2^31, take them in turn.
template <class T, class Backend>
[[nodiscard]] Result<> check_head_weights(std::string_view kernel, TensorView<T const, 2, Backend> const& weights,
                                          std::int64_t rows) {
    if (auto const known = check_views(kernel, weights); !known) return known;
    auto const heads = weights.extent(0);
    auto const refused = [&] { return Error{ErrorCode::shape_mismatch}.in(kernel).at("weights"); };
    if (!weights.is_dense()) return refused().because("have gaps between their rows");
    if (heads < 1) return refused().because("are of no head").got(heads);
    if (rows % heads != 0) return refused().because("are not of the rows' heads").got(rows).multiple_of(heads);
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (rows > most) return refused().because("are taken in turn by too many rows").got(rows).at_most(most);
    return {};
}

/// What a gate multiplies has its shape.
template <class T, class Backend>
[[nodiscard]] Result<> check_gate(std::string_view kernel, TensorView<T const, 2, Backend> const& gate,
                                  TensorView<T const, 2, Backend> const& up) {
    auto const width = gate.extent(1);
    bool const has_rows = up.extent(0) == gate.extent(0);
    if (has_rows && up.extent(1) == width) return {};
    return Error{ErrorCode::shape_mismatch}
        .in(kernel)
        .at("up")
        .because(has_rows ? "is not as wide as the gate" : "has another number of rows than the gate")
        .got(up.extent(has_rows ? 1 : 0))
        .expected(gate.extent(has_rows ? 1 : 0));
}

/// One number gates each row.
template <class T, class Backend>
[[nodiscard]] Result<> check_row_gate(std::string_view kernel, TensorView<T const, 2, Backend> const& gate,
                                      std::int64_t rows) {
    if (auto const known = check_views(kernel, gate); !known) return known;
    if (gate.extent(0) == rows && gate.extent(1) == 1) return {};
    return Error{ErrorCode::shape_mismatch}
        .in(kernel)
        .at("gate")
        .because("does not have one number per row")
        .got(gate.elements())
        .expected(rows);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
