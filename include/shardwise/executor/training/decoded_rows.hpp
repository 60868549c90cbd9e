// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/executor/training/held_part.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Some columns of a row of a weight in floats, whatever blocks they part.
///
/// Shapes  to [columns.size()]
inline void decode_columns(WeightSource const& source, std::int64_t row, UnitRange columns, float* to) {
    std::array<float, source_chunk> values;
    for (auto at = columns.begin / source_chunk * source_chunk; at < columns.end; at += source_chunk) {
        auto const end = std::min(at + source_chunk, source.inputs);
        if (at >= columns.begin && end <= columns.end) {
            decode_source(source, row, at, end - at, to + at - columns.begin);
            continue;
        }
        decode_source(source, row, at, end - at, values.data());
        auto const first = std::max(at, columns.begin);
        std::copy_n(values.data() + first - at, std::min(end, columns.end) - first, to + first - columns.begin);
    }
}

/// Rows of a weight in floats.
///
/// Shapes  to [rows.size(), source.inputs]
/// Order   on `stream`; the source and the memory outlive what is in it
inline void decode_rows(WeightSource const& source, UnitRange rows, float* to, HostStream& stream) {
    auto const decode = [&source, to, first = rows.begin](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row)
            decode_columns(source, first + row, {0, source.inputs}, to + row * source.inputs);
    };
    Host::launch(rows.size(), decode, stream, std::max<std::int64_t>(1, 16'384 / source.inputs));
}

/// Calls `visit(weight, rows)` for some rows of a product at a time, which `decode(rows)` has made floats of: it says where those are.
///
/// Shapes  weight [rows.size(), product.columns.size()]
/// Errors  the first of visit
template <class Decode, class Visit>
[[nodiscard]] Result<> for_each_decoded(HeldProduct const& product, Decode const& decode, Visit const& visit) {
    static_assert(HeldPart::decoded_together % tile_inputs == 0, "sums over rows would be cut elsewhere");
    auto const outputs = product.source.outputs;
    for (std::int64_t first = 0; first < outputs; first += HeldPart::decoded_together) {
        UnitRange const rows{first, std::min<std::int64_t>(first + HeldPart::decoded_together, outputs)};
        TensorView<float const, 2, Host> const all(decode(rows), {rows.size(), product.source.inputs});
        auto const done = visit(all.columns(product.columns.begin, product.columns.size()), rows);
        if (!done) return done;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
