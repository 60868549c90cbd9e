// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_taken.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// mean_rows for what is known to fit.
template <ActivationElement T>
[[nodiscard]] Result<> mean_rows_bound(TensorView<std::int32_t const, 1, Host> last_rows,
                                       TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out,
                                       HostStream& stream) {
    auto const width = in.extent(1);
    auto const average = [=](std::int64_t begin, std::int64_t end) {
        for (auto i = begin; i < end; ++i) {
            std::int64_t const first = i == 0 ? 0 : std::int64_t{last_rows.data()[i - 1]} + 1;
            std::int64_t const last = last_rows.data()[i];
            if (first < 0 || first > last || last >= in.extent(0)) {
                std::fill_n(out.row(i), width, T(0.0F));
                continue;
            }
            for (std::int64_t column = 0; column < width; ++column) {
                double sum = 0.0;
                for (auto row = first; row <= last; ++row) sum += static_cast<float>(in.row(row)[column]);
                out.row(i)[column] = T(static_cast<float>(sum / static_cast<double>(last - first + 1)));
            }
        }
    };
    Host::launch(last_rows.elements(), average, stream, 1);
    return {};
}

}  // namespace detail

/// out = the mean of each text's rows of `in`, which lie one text after another, each up to its last row: what a classifier pools.
/// Sums in double. A text without rows, or with rows that are not there, gives zeros.
///
/// Shapes  last_rows [texts], ascending; in [rows, width], out [texts, width]; `in` and `out` do not overlap
/// Order   on `stream`, which reads the numbers when it comes to them
/// Errors  shape_mismatch
template <ActivationElement T>
[[nodiscard]] Result<> mean_rows(TensorView<std::int32_t const, 1, Host> last_rows, TensorView<T const, 2, Host> in,
                                 TensorView<T, 2, Host> out, HostStream& stream) {
    if (auto const checked = detail::check_taken("mean_rows", last_rows, in, out); !checked) return checked;
    return detail::mean_rows_bound<T>(last_rows, in, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
