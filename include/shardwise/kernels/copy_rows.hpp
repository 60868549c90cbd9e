// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// copy_rows for what is known to fit.
template <ActivationElement T>
[[nodiscard]] Result<> copy_rows_bound(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out,
                                       HostStream& stream) {
    auto const copy = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        std::copy_n(in.row(row) + begin, end - begin, out.row(row) + begin);
    };
    launch_pieces({in.extent(0), in.extent(1)}, copy, stream);
    return {};
}

}  // namespace detail

/// Copies rows between matrices whose rows may lie differently far apart.
///
/// Shapes  in, out [rows, width], which do not overlap
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T>
[[nodiscard]] Result<> copy_rows(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out, HostStream& stream) {
    if (auto const checked = detail::check_rows("copy_rows", in, in.extent(1), out); !checked) return checked;
    return detail::copy_rows_bound<T>(in, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
