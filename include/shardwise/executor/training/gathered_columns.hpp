// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/place.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Memory for what ranks gather of one sequence: columns as they come, two whole values, a rank's share of one.
///
/// Units  floats
struct GatherSizes {
    std::int64_t staging = 0;
    std::int64_t first = 0;
    std::int64_t second = 0;
    std::int64_t share = 0;

    [[nodiscard]] std::int64_t all() const { return staging + first + second + share; }
    /// Where each begins, where registers may load from.
    void take(GatherSizes const& needed) {
        staging = std::max(staging, round_up(needed.staging, 16));
        first = std::max(first, round_up(needed.first, 16));
        second = std::max(second, round_up(needed.second, 16));
        share = std::max(share, round_up(needed.share, 16));
    }
};

/// A tensor-parallel rank in the middle of a pass.
struct TensorRank {
    HostCommunicator* comm = nullptr;
    TensorPlace place;
    /// Copies of weights that are cut along the other axis.
    float const* turned = nullptr;
    float* staging = nullptr;
    float* first = nullptr;
    float* second = nullptr;
    float* share = nullptr;
};

/// Columns that split_units gives each rank.
[[nodiscard]] inline SharedValue shared_evenly(std::int64_t width, TensorPlace const& place) {
    SharedValue out{.width = width, .columns = {}};
    for (std::int64_t rank = 0; rank < place.ranks; ++rank)
        out.columns.push_back({split_units(width, place.ranks, rank)});
    return out;
}
[[nodiscard]] inline std::int64_t columns_of(SharedValue const& value, std::int64_t rank) {
    return ParameterPiece::count(value.columns[static_cast<std::size_t>(rank)]);
}
/// Those of all ranks together: some may have the same.
[[nodiscard]] inline std::int64_t gathered_width(SharedValue const& value) {
    std::int64_t sum = 0;
    for (auto const& columns : value.columns) sum += ParameterPiece::count(columns);
    return sum;
}
/// What a rank takes from the others where `rows` rows of a value are gathered.
[[nodiscard]] inline CollectiveTraffic gather_traffic(SharedValue const& value, std::int64_t rows, std::int64_t rank) {
    auto const others = rows * (gathered_width(value) - columns_of(value, rank));
    return {1, others > 0 ? 1 : 0, others * static_cast<std::int64_t>(sizeof(float))};
}

/// Brings the columns of all ranks together: `own` are this rank's, in the order of its memory, `to` gets all in the value's.
///
/// Shapes  own [rows, this rank's columns] dense, to [rows, width]; own may not overlap `to`
/// Order   on `stream`; `rank` is used by it alone
inline void gather_columns(TensorRank const& rank, TensorView<float const, 2, Host> own, SharedValue value,
                           TensorView<float, 2, Host> to, HostStream& stream) {
    auto const rows = own.extent(0);
    std::vector<std::int64_t> widths;
    for (std::int64_t i = 0; i < rank.place.ranks; ++i) widths.push_back(columns_of(value, i));
    submit_all_gather(
        *rank.comm, TensorView<float const, 1, Host>{own.data(), {own.elements()}},
        TensorView<float, 1, Host>{rank.staging, {rows * gathered_width(value)}},
        [rows, widths](std::int32_t i) { return rows * widths[static_cast<std::size_t>(i)]; }, stream);
    auto const place = [staging = rank.staging, rows, widths, to, columns = std::move(value.columns)](
                           std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            auto const* part = staging;
            for (std::size_t i = 0; i < columns.size(); ++i) {
                auto const* from = part + row * widths[i];
                for (auto const& range : columns[i]) {
                    std::copy_n(from, range.size(), to.row(row) + range.begin);
                    from += range.size();
                }
                part += rows * widths[i];
            }
        }
    };
    Host::launch(rows, place, stream, std::max<std::int64_t>(1, 16'384 / to.extent(1)));
}

/// Of a matrix of which each rank made its columns by split_units, brings those of all ranks together in place.
///
/// Order   as gather_columns; the rank's share memory is used
inline void gather_shares(TensorRank const& rank, TensorView<float, 2, Host> matrix, HostStream& stream) {
    auto const own = split_units(matrix.extent(1), rank.place.ranks, rank.place.rank);
    TensorView<float, 2, Host> const packed(rank.share, {matrix.extent(0), own.size()});
    auto const pack = [matrix, packed, own](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) std::copy_n(matrix.row(row) + own.begin, own.size(), packed.row(row));
    };
    Host::launch(matrix.extent(0), pack, stream, std::max<std::int64_t>(1, 16'384 / matrix.extent(1)));
    gather_columns(rank, packed, shared_evenly(matrix.extent(1), rank.place), matrix, stream);
}

/// Of all columns of a shared value this rank's, in the order of its memory.
///
/// Order   on `stream`
inline void take_own(TensorRank const& rank, SharedValue const& value, TensorView<float const, 2, Host> all,
                     TensorView<float, 2, Host> own, HostStream& stream) {
    auto const take = [all, own, columns = value.columns[static_cast<std::size_t>(rank.place.rank)]](std::int64_t begin,
                                                                                                     std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            auto* to = own.row(row);
            for (auto const& range : columns) to = std::copy_n(all.row(row) + range.begin, range.size(), to);
        }
    };
    Host::launch(own.extent(0), take, stream, std::max<std::int64_t>(1, 16'384 / all.extent(1)));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
