// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// out = value.
///
/// Shapes  out [rows, width]
/// Order   on `stream`
/// Errors  invalid_argument for elements without memory
template <ActivationElement T>
[[nodiscard]] Result<> fill(TensorView<T, 2, Host> out, float value, HostStream& stream) {
    if (auto const known = check_views("fill", out); !known) return known;
    auto const set = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        std::fill_n(out.row(row) + begin, end - begin, T(value));
    };
    detail::launch_pieces({out.extent(0), out.extent(1)}, set, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
