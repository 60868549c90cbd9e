// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/executor/training/training_layout.hpp>
#include <shardwise/parallel/collectives.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What rank `from` has, and no rank after it, and rank `to` has a copy of: of either axis one of them has all.
[[nodiscard]] inline ParameterPiece common_piece(ParameterCut const& cut, std::size_t from, std::size_t to) {
    auto const& own = cut.own[from];
    auto const& turned = cut.turned[to];
    // All rows may be read by a rank that shares some of them; no copy has all columns of such a parameter.
    bool const has_rows = cut.turned[from].width() < own.width();
    return has_rows ? ParameterPiece{cut.counted[from].rows, turned.columns} : ParameterPiece{turned.rows, own.columns};
}

/// Renews the copy of a parameter that is cut along the other axis. All tensor-parallel ranks call it.
///
/// Shapes  values [parameter.elements], turned [parameter.turned_elements], staging [TrainingLayout::exchanged_elements()]
/// Order   on `stream`; the parameter, the memory and `comm` outlive what is in it
/// Errors  a collective's error stops the stream
template <class T, Communicator C>
void exchange_turned(TrainingParameter const& parameter, T const* values, T* turned, T* staging, C& comm,
                     HostStream& stream) {
    auto const ranks = static_cast<std::size_t>(comm.size());
    auto* const sent = staging;
    auto* const got = sent + round_up(parameter.elements, TrainingLayout::alignment);
    auto const* const cut = &parameter.cut;
    auto const own = parameter.rank;
    stream.submit([=, stride = parameter.stride] {
        auto* to = sent;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            common_piece(*cut, own, rank)
                .for_each_run(stride, [&](std::int64_t whole, std::int64_t, std::int64_t count) {
                    auto const at = cut->own[own].at(whole / stride, whole % stride);
                    to = std::copy_n(values + at, count, to);
                });
        }
        return Result<>{};
    });
    submit_all_to_all(
        comm, TensorView<T const, 1, Host>{sent, {parameter.counted()}},
        [cut, own](std::int32_t rank) { return common_piece(*cut, own, static_cast<std::size_t>(rank)).elements(); },
        TensorView<T, 1, Host>{got, {parameter.turned_elements}},
        [cut, own](std::int32_t rank) { return common_piece(*cut, static_cast<std::size_t>(rank), own).elements(); },
        stream);
    stream.submit([=, stride = parameter.stride] {
        auto const* from = got;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            common_piece(*cut, rank, own)
                .for_each_run(stride, [&](std::int64_t whole, std::int64_t, std::int64_t count) {
                    auto const at = cut->turned[own].at(whole / stride, whole % stride);
                    std::copy_n(from, count, turned + at);
                    from += count;
                });
        }
        return Result<>{};
    });
}

/// What a rank takes from the others where all copies of a layout are renewed, of elements of so many bytes.
[[nodiscard]] inline CollectiveTraffic exchange_traffic(TrainingLayout const& layout, std::int64_t width) {
    CollectiveTraffic out;
    for (auto const& parameter : layout.parameters()) {
        if (parameter.turned_elements == 0) continue;
        auto const kept = common_piece(parameter.cut, parameter.rank, parameter.rank).elements();
        auto const others = parameter.turned_elements - kept;
        out += {1, others > 0 ? 1 : 0, others * width};
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
