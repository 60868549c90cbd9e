// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
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
    if (auto const known = check_views("embedding", ids, table, out); !known) return known;
    auto const width = table.extent(1);
    Error error{ErrorCode::shape_mismatch};
    error.in("embedding");
    if (out.extent(1) != width)
        return error.because("the output is not as wide as the table").got(out.extent(1)).expected(width);
    if (out.extent(0) != ids.elements()) {
        return error.because("the output has another number of rows than there are ids")
            .got(out.extent(0))
            .expected(ids.elements());
    }
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
