// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_addends.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// add_row for what is known to fit.
template <ActivationElement T>
[[nodiscard]] Result<> add_row_bound(TensorView<T const, 1, Host> row, TensorView<T, 2, Host> to, HostStream& stream) {
    auto const sum = [=](std::int64_t index, std::int64_t begin, std::int64_t end) {
        auto const* const from = row.data();
        auto* const out = to.row(index);
        for (auto i = begin; i < end; ++i) out[i] = T(static_cast<float>(out[i]) + static_cast<float>(from[i]));
    };
    launch_pieces({to.extent(0), to.extent(1)}, sum, stream);
    return {};
}

}  // namespace detail

/// Adds one row to each row: the bias of a product.
///
/// Shapes  row [width], to [rows, width], which do not overlap
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T>
[[nodiscard]] Result<> add_row(TensorView<T const, 1, Host> row, TensorView<T, 2, Host> to, HostStream& stream) {
    if (auto const checked = detail::check_added_row(row, to); !checked) return checked;
    return detail::add_row_bound<T>(row, to, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
