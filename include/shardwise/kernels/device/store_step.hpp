// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_store_step.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/store_step_call.hpp>
#include <shardwise/kernels/device/step_table.hpp>
#include <shardwise/quant/half_types.hpp>

#include <concepts>
#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/store_step_launch.cuh.
template <class Api, class T, class Cache>
Result<> launch_store_step(StoreStepCall<T, Cache> const& call, typename Api::Stream stream);

}  // namespace detail

/// What keys and values are cached in on a device.
template <class T>
concept DeviceCacheElement = std::same_as<T, float> || std::same_as<T, Bfloat16> || std::same_as<T, std::int8_t>;

/// Puts the keys or values of a step's new tokens into the pages of their sequences, all sequences in one call: the host's bits
/// (kernels/store_step.hpp). Rows beyond those that the table has when the kernel runs are left alone.
///
/// Shapes  in [tokens or more, heads * width]; memory [rows of the cache, heads * width], scales [rows of the cache, heads] where
///         elements are bytes
/// Memory  the table stays alive until it is done
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for a group without lists; size_overflow for 2^32 heads of tokens
template <DeviceCacheElement Cache, class Api, ActivationElement T>
[[nodiscard]] Result<> store_rows(TensorView<T const, 2, DeviceBackend<Api>> in,
                                  TensorView<Cache, 2, DeviceBackend<Api>> memory,
                                  StepTable<DeviceBackend<Api>> const& table, std::int64_t group,
                                  DeviceStream<Api>& stream, TensorView<float, 2, DeviceBackend<Api>> scales = {}) {
    if (auto const checked = detail::check_store_step<Cache>(in, memory, table, group, scales); !checked)
        return checked;
    if (in.empty()) return {};
    auto const heads = std::same_as<Cache, std::int8_t> ? scales.extent(1) : 1;
    constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
    if (heads > std::numeric_limits<std::int32_t>::max() || in.extent(0) > most / heads) {
        return Error{ErrorCode::size_overflow}
            .in("store_rows")
            .because("has more heads of tokens than 32 bits count")
            .got(in.extent(0))
            .fix("store fewer tokens at once");
    }
    detail::StoreStepCall<T, Cache> const call{detail::make_step_places(table.layout(), table.data(), group),
                                               in.data(),
                                               in.stride(0),
                                               memory.data(),
                                               memory.stride(0),
                                               scales.data(),
                                               scales.stride(0),
                                               in.extent(0),
                                               in.extent(1),
                                               static_cast<std::int32_t>(heads),
                                               in.extent(1) / heads};
    stream.submit([&](typename Api::Stream native) { return detail::launch_store_step<Api, T, Cache>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
