// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/delta_weights.hpp>
#include <shardwise/kernels/detail/check_gated_delta.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/gated_delta_call.hpp>
#include <shardwise/op/operation.hpp>

#include <concepts>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/gated_delta_launch.cuh.
template <class Api, class T>
Result<> launch_gated_delta(GatedDeltaCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// Floats of workspace for so many key heads of so many tokens on a device.
template <class Backend>
requires(!std::same_as<Backend, Host>) [[nodiscard]] constexpr std::int64_t
    gated_delta_workspace(DeltaShape const& shape, std::int64_t heads, std::int64_t tokens) {
    return tokens * heads * (shape.channels() + 2 * shape.values_per_key());
}

/// The gated delta rule over the tokens of one sequence (op/gated_delta.hpp). `state` is what the tokens before left
/// (DeltaShape::state_elements); with `is_first` there are none, and it may hold anything.
///
/// Shapes  in [tokens, heads * (channels + value_columns)], ba [tokens, heads * 2 * values_per_key], out
///         [tokens, heads * value_columns]; `heads` are those of the shape
/// Memory  workspace of gated_delta_workspace; allocates nothing
/// Order   on `stream`
/// Errors  shape_mismatch; unsupported for keys of more than 256 elements
template <ActivationElement T, class Api>
[[nodiscard]] Result<> gated_delta(TensorView<T const, 2, DeviceBackend<Api>> in,
                                   TensorView<T const, 2, DeviceBackend<Api>> ba, DeltaShape const& shape,
                                   DeltaWeights<DeviceBackend<Api>> const& weights, bool is_first,
                                   TensorView<float, 1, DeviceBackend<Api>> state,
                                   TensorView<float, 1, DeviceBackend<Api>> workspace,
                                   TensorView<T, 2, DeviceBackend<Api>> out, DeviceStream<Api>& stream) {
    auto const heads = shape.key_heads;
    auto const tokens = in.extent(0);
    auto const needed = gated_delta_workspace<DeviceBackend<Api>>(shape, heads, tokens);
    auto const checked = detail::check_gated_delta(in, ba, shape, weights, state, workspace, needed, out);
    if (!checked) return checked;
    constexpr std::int64_t widest = detail::delta_kept * detail::delta_groups;
    if (shape.key_dim > widest) {
        return Error{ErrorCode::unsupported}
            .in("gated_delta")
            .because("has wider keys than a device's kernel keeps")
            .got(shape.key_dim)
            .at_most(widest);
    }
    if (out.empty()) return {};
    auto const narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    detail::GatedDeltaCall<T> const call{in.data(),
                                         in.stride(0),
                                         ba.data(),
                                         ba.stride(0),
                                         out.data(),
                                         out.stride(0),
                                         weights.convolution.data(),
                                         weights.dt_bias.data(),
                                         weights.decay.data(),
                                         weights.norm.data(),
                                         weights.epsilon,
                                         state.data(),
                                         workspace.data(),
                                         workspace.data() + tokens * heads * shape.channels(),
                                         tokens,
                                         narrow(heads),
                                         narrow(shape.values_per_key()),
                                         narrow(shape.key_dim),
                                         narrow(shape.value_dim),
                                         narrow(shape.kernel),
                                         is_first};
    stream.submit([&](typename Api::Stream native) { return detail::launch_gated_delta<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
