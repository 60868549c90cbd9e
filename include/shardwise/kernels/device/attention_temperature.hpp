// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/attention_temperature_call.hpp>
#include <shardwise/kernels/detail/check_temperature.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/attention_temperature_launch.cuh.
template <class Api, class T>
Result<> launch_attention_temperature(AttentionTemperatureCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// Multiplies queries by what their scores grow with their position, in place: llama4's attention temperature tuning,
/// 1 + growth * log(1 + floor((position + 1) / step)), in float.
///
/// Shapes  values [tokens, width]; positions [tokens], of -1 and more
/// Units   step in tokens
/// Order   on `stream`, which reads the positions when it comes to them
/// Errors  shape_mismatch; invalid_argument for a step below 1
/// Source  transformers 4.57 models/llama4/modeling_llama4.py (Llama4TextAttention)
template <ActivationElement T, class Api>
[[nodiscard]] Result<> attention_temperature(TensorView<T, 2, DeviceBackend<Api>> values,
                                             TensorView<std::int32_t const, 1, DeviceBackend<Api>> positions,
                                             std::int64_t step, float growth, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_temperature(values, positions, step); !checked) return checked;
    if (values.empty()) return {};
    detail::AttentionTemperatureCall<T> const call{
        values.data(), values.stride(0), positions.data(), values.extent(0), values.extent(1), static_cast<float>(step),
        growth};
    stream.submit(
        [&](typename Api::Stream native) { return detail::launch_attention_temperature<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
