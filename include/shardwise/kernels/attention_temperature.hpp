// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/check_temperature.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <cmath>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// attention_temperature for what is known to fit.
template <ActivationElement T>
[[nodiscard]] Result<> attention_temperature_bound(TensorView<T, 2, Host> values,
                                                   TensorView<std::int32_t const, 1, Host> positions, std::int64_t step,
                                                   float growth, HostStream& stream) {
    auto const tune = [=, tokens = static_cast<float>(step)](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            auto const steps = std::floor((static_cast<float>(positions.data()[row]) + 1.0F) / tokens);
            auto const factor = std::log1p(steps) * growth + 1.0F;
            for (std::int64_t i = 0; i < values.extent(1); ++i)
                values.row(row)[i] = T(static_cast<float>(values.row(row)[i]) * factor);
        }
    };
    Host::launch(values.extent(0), tune, stream);
    return {};
}

}  // namespace detail

/// Multiplies queries by what their scores grow with their position, in place: llama4's attention temperature tuning,
/// 1 + growth * log(1 + floor((position + 1) / step)), in float.
///
/// Shapes  values [tokens, width]; positions [tokens], of -1 and more
/// Units   step in tokens
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for a step below 1
/// Source  transformers 4.57 models/llama4/modeling_llama4.py (Llama4TextAttention)
template <ActivationElement T>
[[nodiscard]] Result<> attention_temperature(TensorView<T, 2, Host> values,
                                             TensorView<std::int32_t const, 1, Host> positions, std::int64_t step,
                                             float growth, HostStream& stream) {
    if (auto const checked = detail::check_temperature(values, positions, step); !checked) return checked;
    return detail::attention_temperature_bound<T>(values, positions, step, growth, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
