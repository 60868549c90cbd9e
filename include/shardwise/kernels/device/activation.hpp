// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/activation_call.hpp>
#include <shardwise/kernels/detail/check_kind.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/activation_launch.cuh.
template <class Api, class T>
Result<> launch_activation(ActivationCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// out = activation(in), element by element; an exponential is within two units in the last place of a float.
///
/// Shapes  in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch; unsupported for xielu, a kernel of its own
template <ActivationElement T, class Api>
[[nodiscard]] Result<> activation(TensorView<T const, 2, DeviceBackend<Api>> in,
                                  TensorView<T, 2, DeviceBackend<Api>> out, ActivationKind kind,
                                  DeviceStream<Api>& stream) {
    if (auto const known = detail::check_kind("activation", kind); !known) return known;
    if (auto const checked = detail::check_rows("activation", in, in.extent(1), out); !checked) return checked;
    if (in.empty()) return {};
    detail::ActivationCall<T> const call{in.data(),     in.stride(0), nullptr,      0,   out.data(),
                                         out.stride(0), in.extent(0), in.extent(1), kind};
    stream.submit([&](typename Api::Stream native) { return detail::launch_activation<Api, T>(call, native); });
    return {};
}

/// out = activation(gate) * up, as the host's (kernels/activation.hpp).
///
/// Shapes  gate, up, out [rows, width], out may be gate or up
/// Order   on `stream`
/// Errors  shape_mismatch; unsupported for xielu, a kernel of its own
template <ActivationElement T, class Api>
[[nodiscard]] Result<> gated_activation(TensorView<T const, 2, DeviceBackend<Api>> gate,
                                        TensorView<T const, 2, DeviceBackend<Api>> up,
                                        TensorView<T, 2, DeviceBackend<Api>> out, ActivationKind kind,
                                        DeviceStream<Api>& stream) {
    if (auto const known = detail::check_kind("gated_activation", kind); !known) return known;
    if (auto const known = check_views("gated_activation", gate, up, out); !known) return known;
    if (auto const checked = detail::check_rows("gated_activation", gate, gate.extent(1), out); !checked)
        return checked;
    if (auto const checked = detail::check_gate("gated_activation", gate, up); !checked) return checked;
    if (gate.empty()) return {};
    detail::ActivationCall<T> const call{gate.data(),   gate.stride(0), up.data(),      up.stride(0), out.data(),
                                         out.stride(0), gate.extent(0), gate.extent(1), kind};
    stream.submit([&](typename Api::Stream native) { return detail::launch_activation<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
