// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/arg_max_call.hpp>
#include <shardwise/kernels/detail/check_arg_max.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/arg_max_launch.cuh.
template <class Api>
Result<> launch_arg_max(std::string_view name, ArgMaxCall const& call, typename Api::Stream stream);

template <class Api>
void submit_arg_max(std::string_view name, ArgMaxCall const& call, DeviceStream<Api>& stream) {
    if (call.rows == 0) return;
    stream.submit([&](typename Api::Stream native) { return launch_arg_max<Api>(name, call, native); });
}

}  // namespace detail

/// The key of each row's largest logit, whose ids begin with `first_id`: the host's keys.
///
/// Shapes  logits [rows, columns], keys [rows]
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for ids beyond 31 bits
template <class Api>
[[nodiscard]] Result<> largest_logits(TensorView<float const, 2, DeviceBackend<Api>> logits, std::int64_t first_id,
                                      TensorView<std::int64_t, 1, DeviceBackend<Api>> keys, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_arg_max("largest_logits", logits, first_id, keys); !checked) return checked;
    detail::submit_arg_max<Api>(
        "largest_logits",
        {logits.data(), logits.stride(0), logits.extent(0), logits.extent(1), first_id, keys.data(), nullptr}, stream);
    return {};
}

/// The ids of keys of logits; -1 for that of no number.
///
/// Shapes  keys, ids [rows]
/// Order   on `stream`
/// Errors  shape_mismatch
template <class Api>
[[nodiscard]] Result<> ids_of_keys(TensorView<std::int64_t, 1, DeviceBackend<Api>> keys,
                                   TensorView<std::int32_t, 1, DeviceBackend<Api>> ids, DeviceStream<Api>& stream) {
    if (auto const known = check_views("ids_of_keys", keys); !known) return known;
    if (auto const checked = detail::check_found("ids_of_keys", keys.elements(), ids); !checked) return checked;
    detail::submit_arg_max<Api>("ids_of_keys", {nullptr, 0, keys.elements(), 0, 0, keys.data(), ids.data()}, stream);
    return {};
}

/// The id of each row's largest logit: of equal ones the lowest (-0 is +0), -1 where none is a number.
///
/// Shapes  logits [rows, vocabulary], ids [rows]
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for ids beyond 31 bits
template <class Api>
[[nodiscard]] Result<> arg_max(TensorView<float const, 2, DeviceBackend<Api>> logits,
                               TensorView<std::int32_t, 1, DeviceBackend<Api>> ids, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_arg_max("arg_max", logits, 0, ids); !checked) return checked;
    detail::submit_arg_max<Api>(
        "arg_max", {logits.data(), logits.stride(0), logits.extent(0), logits.extent(1), 0, nullptr, ids.data()},
        stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
