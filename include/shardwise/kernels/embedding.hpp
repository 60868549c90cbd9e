// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/check_embedding.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Rows of a table by id. The table may be a shard of the vocabulary that begins at `first_row`: ids outside of it give zeros,
/// so that the sum over the shards is the whole (vocabulary-parallel embedding).
///
/// Shapes  ids [tokens], table [rows, width], out [tokens, width]
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T>
[[nodiscard]] Result<> embedding(TensorView<std::int32_t const, 1, Host> ids, TensorView<T const, 2, Host> table,
                                 TensorView<T, 2, Host> out, HostStream& stream, std::int64_t first_row = 0) {
    if (auto const known = check_views("embedding", table); !known) return known;
    auto const width = table.extent(1);
    if (auto const checked = detail::check_embedding(ids, width, out); !checked) return checked;
    auto const look_up = [=](std::int64_t begin, std::int64_t end) {
        for (auto token = begin; token < end; ++token) {
            auto const row = ids.data()[token] - first_row;
            if (row >= 0 && row < table.extent(0)) {
                std::copy_n(table.row(row), width, out.row(token));
            } else {
                std::fill_n(out.row(token), width, T(0.0F));
            }
        }
    };
    Host::launch(ids.elements(), look_up, stream, detail::row_grain(width));
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
