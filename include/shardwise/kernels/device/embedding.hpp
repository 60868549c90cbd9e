// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_embedding.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/embedding_call.hpp>
#include <shardwise/kernels/device/detail/submit_copy_rows.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/embedding_launch.cuh.
template <class Api>
Result<> launch_weight_rows(std::string_view name, WeightRowsCall const& call, typename Api::Stream stream);

}  // namespace detail

/// Rows of a table by id. The table may be a shard of the vocabulary that begins at `first_row`: ids outside of it give zeros.
///
/// Shapes  ids [tokens], table [rows, width], out [tokens, width]
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> embedding(TensorView<std::int32_t const, 1, DeviceBackend<Api>> ids,
                                 TensorView<T const, 2, DeviceBackend<Api>> table,
                                 TensorView<T, 2, DeviceBackend<Api>> out, DeviceStream<Api>& stream,
                                 std::int64_t first_row = 0) {
    if (auto const known = check_views("embedding", table); !known) return known;
    if (auto const checked = detail::check_embedding(ids, table.extent(1), out); !checked) return checked;
    detail::submit_copy_rows<T, Api>("embedding", ids.data(), first_row, table, out, stream);
    return {};
}

/// The same of a table that the device holds as a weight, in any format that it multiplies by: row i is output i. Elements are
/// the format's reference decode, bit for bit, rounded to the output's type.
///
/// Shapes  ids [tokens], table [outputs, inputs], out [tokens, inputs]
/// Memory  the table stays alive until it is done
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> embedding(TensorView<std::int32_t const, 1, DeviceBackend<Api>> ids,
                                 DeviceWeight<Api> const& table, TensorView<T, 2, DeviceBackend<Api>> out,
                                 DeviceStream<Api>& stream, std::int64_t first_row = 0) {
    if (auto const checked = detail::check_embedding(ids, table.inputs(), out); !checked) return checked;
    if (out.empty()) return {};
    detail::WeightRowsCall const call{ids.data(),    first_row,     table.view(),          out.data(),
                                      out.stride(0), out.extent(0), detail::row_element<T>};
    stream.submit(
        [&](typename Api::Stream native) { return detail::launch_weight_rows<Api>("embedding", call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
