// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/thread_pool.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How rows are cut for threads: into pieces of about `elements`, so that one long row too has work for all of them. The cut
/// depends on the rows' shape alone.
struct RowPieces {
    std::int64_t rows = 0;
    std::int64_t width = 0;
    /// Columns of a piece, a multiple of the step; the last piece of a row may have fewer.
    std::int64_t columns = 1;
    std::int64_t per_row = 1;
    /// Pieces that one thread takes at least.
    std::int64_t grain = 1;

    /// `step`: what a piece begins at a multiple of.
    RowPieces(std::int64_t row_count, std::int64_t row_width, std::int64_t step = 1,
              std::int64_t elements = row_grain(1))
        : rows(row_count), width(row_width), columns(std::max<std::int64_t>(1, row_width)) {
        if (step < width && elements < width) {
            columns = std::max<std::int64_t>(1, elements / step) * step;
            per_row = ceil_divide(width, columns);
        }
        grain = std::max<std::int64_t>(1, elements / columns);
    }
    [[nodiscard]] std::int64_t count() const { return rows * per_row; }
    [[nodiscard]] std::int64_t row(std::int64_t piece) const { return piece / per_row; }
    [[nodiscard]] std::int64_t begin(std::int64_t piece) const { return piece % per_row * columns; }
    [[nodiscard]] std::int64_t end(std::int64_t piece) const { return std::min(begin(piece) + columns, width); }
};

/// Calls body(row, begin, end) for the columns [begin, end) of every piece, on all threads of a pool; null: on the caller's.
template <class Body>
void run_pieces(RowPieces const& pieces, ThreadPool* pool, Body const& body) {
    auto const run = [&](std::int64_t first, std::int64_t last) {
        auto row = pieces.row(first);
        auto begin = pieces.begin(first);
        for (auto piece = first; piece < last; ++piece) {
            auto const end = std::min(begin + pieces.columns, pieces.width);
            body(row, begin, end);
            begin = end < pieces.width ? end : 0;
            row += end < pieces.width ? 0 : 1;
        }
    };
    if (pool != nullptr) return pool->run_ranges(pieces.count(), pieces.grain, run);
    run(0, pieces.count());
}

/// The same on the threads of a stream.
///
/// Order  on `stream`
template <class Body>
void launch_pieces(RowPieces const& pieces, Body body, HostStream& stream) {
    stream.submit([pieces, body, pool = stream.pool()]() -> Result<> {
        run_pieces(pieces, pool, body);
        return {};
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
