// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/core/unfused.hpp>
#include <shardwise/kernels/detail/check_combined.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

SHARDWISE_UNFUSED_BEGIN

/// to += weight * row.
inline void add_weighted(float const* row, float weight, float* to, std::int64_t width) {
    for (std::int64_t i = 0; i < width; ++i) to[i] += weight * row[i];
}

SHARDWISE_UNFUSED_END

/// combine_rows for what is known to fit.
[[nodiscard]] inline Result<> combine_rows_bound(TensorView<float const, 2, Host> rows,
                                                 TensorView<std::int32_t const, 1, Host> places,
                                                 TensorView<float const, 2, Host> weights,
                                                 TensorView<float, 2, Host> out, HostStream& stream) {
    auto const sum = [=](std::int64_t begin, std::int64_t end) {
        auto const width = out.extent(1);
        auto const chosen = weights.extent(1);
        for (auto token = begin; token < end; ++token) {
            std::fill_n(out.row(token), width, 0.0F);
            for (std::int64_t i = 0; i < chosen; ++i) {
                auto const* const row = rows.row(places.data()[token * chosen + i]);
                add_weighted(row, weights.row(token)[i], out.row(token), width);
            }
        }
    };
    Host::launch(out.extent(0), sum, stream);
    return {};
}

}  // namespace detail

/// out = for each token the sum over its experts, in the order in which they were chosen, of weight * row. `places` says by pair of
/// a token and its expert which of the rows is its own. It is the only place where experts are summed, so that bits do not depend
/// on who computed them: products are rounded before they are added, on devices too.
///
/// Shapes  rows [any number, width]; weights [tokens, experts_per_token]; places [tokens * experts_per_token], each a row's number;
///         out [tokens, width]
/// Order   on `stream`
/// Errors  shape_mismatch
[[nodiscard]] inline Result<> combine_rows(TensorView<float const, 2, Host> rows,
                                           TensorView<std::int32_t const, 1, Host> places,
                                           TensorView<float const, 2, Host> weights, TensorView<float, 2, Host> out,
                                           HostStream& stream) {
    if (auto const checked = detail::check_combined(rows, places, weights, out); !checked) return checked;
    return detail::combine_rows_bound(rows, places, weights, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
