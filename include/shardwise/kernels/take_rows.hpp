// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_taken.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// take_rows for what is known to fit.
template <ActivationElement T>
[[nodiscard]] Result<> take_rows_bound(TensorView<std::int32_t const, 1, Host> numbers, TensorView<T const, 2, Host> in,
                                       TensorView<T, 2, Host> out, HostStream& stream) {
    auto const width = in.extent(1);
    auto const take = [=](std::int64_t begin, std::int64_t end) {
        for (auto i = begin; i < end; ++i) {
            auto const row = numbers.data()[i];
            if (row >= 0 && row < in.extent(0)) {
                std::copy_n(in.row(row), width, out.row(i));
            } else {
                std::fill_n(out.row(i), width, T(0.0F));
            }
        }
    };
    Host::launch(numbers.elements(), take, stream, row_grain(width));
    return {};
}

}  // namespace detail

/// out = the rows of `in` with the given numbers, in their order: the last tokens of sequences, the tokens of an expert. A number
/// that is no row's gives zeros.
///
/// Shapes  numbers [n], in [rows, width], out [n, width]; `in` and `out` do not overlap
/// Order   on `stream`, which reads the numbers when it comes to them
/// Errors  shape_mismatch
template <ActivationElement T>
[[nodiscard]] Result<> take_rows(TensorView<std::int32_t const, 1, Host> numbers, TensorView<T const, 2, Host> in,
                                 TensorView<T, 2, Host> out, HostStream& stream) {
    if (auto const checked = detail::check_taken("take_rows", numbers, in, out); !checked) return checked;
    return detail::take_rows_bound<T>(numbers, in, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
