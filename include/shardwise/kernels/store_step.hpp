// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/cached_rows.hpp>
#include <shardwise/kernels/detail/check_store_step.hpp>
#include <shardwise/kernels/detail/store_step_call.hpp>
#include <shardwise/kernels/step_table.hpp>
#include <shardwise/kernels/store_rows.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// store_rows of a step's rows into memory as wide, with the pages that the table names: which who calls has asked once.
template <CacheElement Cache>
[[nodiscard]] Result<> store_rows_bound(TensorView<float const, 2, Host> in, TensorView<Cache, 2, Host> memory,
                                        StepTable<Host> const& table, std::int64_t group, HostStream& stream,
                                        TensorView<float, 2, Host> scales) {
    auto const places = detail::make_step_places(table.layout(), table.data(), group);
    auto const store = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            auto const place = detail::place_of(places, row);
            if (place < 0) continue;
            auto* const of_row = scales.empty() ? nullptr : scales.row(place);
            detail::store_row(in.row(row), in.extent(1), memory.row(place), of_row, scales.extent(1));
        }
    };
    Host::launch(in.extent(0), store, stream, detail::row_grain(in.extent(1)));
    return {};
}

}  // namespace detail

/// Puts the keys or values of a step's new tokens into the pages of their sequences, all sequences in one call: the bits of a call for
/// each of them (kernels/store_rows.hpp). `group` says whose lists of pages the table gives; rows beyond the step's are left alone.
///
/// Shapes  in [tokens or more, heads * width]; memory [rows of the cache, heads * width], scales [rows of the cache, heads] where
///         elements are bytes
/// Memory  the table stays alive, and its step is not replaced, until it is done
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for a group without lists; before anything is stored
template <CacheElement Cache>
[[nodiscard]] Result<> store_rows(TensorView<float const, 2, Host> in, TensorView<Cache, 2, Host> memory,
                                  StepTable<Host> const& table, std::int64_t group, HostStream& stream,
                                  TensorView<float, 2, Host> scales = {}) {
    if (auto const checked = detail::check_store_step<Cache>(in, memory, table, group, scales); !checked)
        return checked;
    return detail::store_rows_bound<Cache>(in, memory, table, group, stream, scales);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
