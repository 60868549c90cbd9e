// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_addends.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// add of rows that fit, which who calls has asked once.
template <ActivationElement T>
[[nodiscard]] Result<> add_bound(TensorView<T const, 2, Host> a, TensorView<T const, 2, Host> b,
                                 TensorView<T, 2, Host> out, HostStream& stream) {
    auto const sum = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        auto const* const left = a.row(row);
        auto const* const right = b.row(row);
        auto* const to = out.row(row);
        for (auto i = begin; i < end; ++i) to[i] = T(static_cast<float>(left[i]) + static_cast<float>(right[i]));
    };
    detail::launch_pieces({out.extent(0), out.extent(1)}, sum, stream);
    return {};
}

}  // namespace detail

/// out = a + b, element by element, rounded once: what a block adds to the residual.
///
/// Shapes  a, b, out [rows, width], out may be a or b
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T>
[[nodiscard]] Result<> add(TensorView<T const, 2, Host> a, TensorView<T const, 2, Host> b, TensorView<T, 2, Host> out,
                           HostStream& stream) {
    if (auto const checked = detail::check_addends("add", a, b, out); !checked) return checked;
    return detail::add_bound<T>(a, b, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
