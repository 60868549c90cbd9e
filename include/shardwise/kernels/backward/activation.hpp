// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/check_gradients.hpp>
#include <shardwise/kernels/detail/check_kind.hpp>
#include <shardwise/kernels/detail/element_backward.hpp>
#include <shardwise/kernels/detail/lanes_backward.hpp>
#include <shardwise/op/operation.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// in_gradient = out_gradient * activation'(in), or += it, element by element. relu's derivative at 0 is 0, as torch's.
///
/// Shapes  in, out_gradient, in_gradient [rows, width]; in_gradient may be one of the others
/// Order   on `stream`
/// Errors  shape_mismatch; unsupported for xielu; what the stream says of its instruction set
[[nodiscard]] inline Result<> activation_backward(TensorView<float const, 2, Host> in,
                                                  TensorView<float const, 2, Host> out_gradient,
                                                  TensorView<float, 2, Host> in_gradient, bool is_added,
                                                  ActivationKind kind, HostStream& stream) {
    if (auto const known = detail::check_kind("activation_backward", kind); !known) return known;
    if (!stream.isa()) return stream.isa().error();
    using Kernel = void (*)(float const*, float const*, float*, std::int64_t, ActivationKind, bool);
    auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(activation_backward_row));
    auto const apply = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        kernel(in.row(row) + begin, out_gradient.row(row) + begin, in_gradient.row(row) + begin, end - begin, kind,
               is_added);
    };
    return detail::launch_elements("activation_backward", in, out_gradient, in_gradient, stream, apply);
}

/// Of out = activation(gate) * up: gate_gradient = out_gradient * up * activation'(gate), up_gradient = out_gradient *
/// activation(gate), or += them. Beyond swiglu_clamped's bounds a gradient is 0, on them it is not, as torch's clamp.
///
/// Shapes  gate, up, out_gradient, gate_gradient, up_gradient [rows, width]; a gradient may be one of the first three, not both the
///         same
/// Order   on `stream`
/// Errors  shape_mismatch; unsupported for xielu; what the stream says of its instruction set
[[nodiscard]] inline Result<> gated_activation_backward(TensorView<float const, 2, Host> gate,
                                                        TensorView<float const, 2, Host> up,
                                                        TensorView<float const, 2, Host> out_gradient,
                                                        TensorView<float, 2, Host> gate_gradient,
                                                        TensorView<float, 2, Host> up_gradient, bool is_added,
                                                        ActivationKind kind, HostStream& stream) {
    constexpr std::string_view name = "gated_activation_backward";
    if (auto const known = detail::check_kind(name, kind); !known) return known;
    if (auto const known = check_views(name, up, up_gradient); !known) return known;
    auto const rows = gate.extent(0);
    auto const width = gate.extent(1);
    if (auto const checked = detail::check_shape(name, "up", up, rows, width); !checked) return checked;
    if (auto const checked = detail::check_shape(name, "up_gradient", up_gradient, rows, width); !checked)
        return checked;
    if (!stream.isa()) return stream.isa().error();
    using Kernel =
        void (*)(float const*, float const*, float const*, float*, float*, std::int64_t, ActivationKind, bool);
    auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(gate_backward_row));
    auto const apply = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        kernel(gate.row(row) + begin, up.row(row) + begin, out_gradient.row(row) + begin,
               gate_gradient.row(row) + begin, up_gradient.row(row) + begin, end - begin, kind, is_added);
    };
    return detail::launch_elements(name, gate, out_gradient, gate_gradient, stream, apply);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
