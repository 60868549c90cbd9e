// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/check_kind.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>
#include <shardwise/op/operation.hpp>

#include <cmath>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// An activation of one value. swiglu_clamped has two inputs: see gated_activation. xielu is a kernel of its own, and NaN here.
///
/// Source  transformers 4.57 `activations.py` (ACT2FN): gelu_new and gelu_fast are the tanh approximation; quick_gelu is
///         x * sigmoid(1.702 x)
[[nodiscard]] inline float activate(float x, ActivationKind kind) {
    auto const sigmoid = [](float value) { return 1.0F / (1.0F + std::exp(-value)); };
    constexpr float sqrt_8_over_pi = 1.5957691216057308F;
    constexpr float sqrt_half = 0.7071067811865476F;
    switch (kind) {
        case ActivationKind::silu:
            return x * sigmoid(x);
        case ActivationKind::gelu:
            // 1 + erf(x) would cancel where x is negative.
            return 0.5F * x * std::erfc(-x * sqrt_half);
        case ActivationKind::gelu_tanh:
        case ActivationKind::gelu_new:
        case ActivationKind::gelu_fast:
            // 0.5 (1 + tanh(u)) = sigmoid(2 u), which does not cancel.
            return x * sigmoid(sqrt_8_over_pi * (x + 0.044715F * x * x * x));
        case ActivationKind::relu:
            return x < 0.0F ? 0.0F : x;
        case ActivationKind::relu_squared:
            return x < 0.0F ? 0.0F : x * x;
        case ActivationKind::tanh:
            return std::tanh(x);
        case ActivationKind::quick_gelu:
        case ActivationKind::swiglu_clamped:
            return x * sigmoid(1.702F * x);
        case ActivationKind::sigmoid:
            return sigmoid(x);
        case ActivationKind::xielu:
            // Has numbers of its own: kernels/xielu.hpp.
            break;
    }
    return std::nanf("");
}

namespace detail {

/// activation of rows that fit and of a kind that it knows, which who calls has asked once.
template <ActivationElement T>
[[nodiscard]] Result<> activation_bound(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out,
                                        ActivationKind kind, HostStream& stream) {
    if (!stream.isa()) return stream.isa().error();
    auto const kernel = detail::choose_kernel<void (*)(T const*, T*, std::int64_t, ActivationKind)>(
        *stream.isa(), SHARDWISE_KERNEL_LEVELS(activate_row<T>));
    auto const apply = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        kernel(in.row(row) + begin, out.row(row) + begin, end - begin, kind);
    };
    detail::launch_pieces({in.extent(0), in.extent(1)}, apply, stream);
    return {};
}

}  // namespace detail

/// out = activation(in), element by element.
///
/// Shapes  in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch; unsupported for xielu, a kernel of its own; what the stream says of its instruction set
template <ActivationElement T>
[[nodiscard]] Result<> activation(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out, ActivationKind kind,
                                  HostStream& stream) {
    if (auto const known = detail::check_kind("activation", kind); !known) return known;
    auto const width = in.extent(1);
    if (auto const checked = detail::check_rows("activation", in, width, out); !checked) return checked;
    return detail::activation_bound<T>(in, out, kind, stream);
}

namespace detail {

/// The same of gated_activation.
template <ActivationElement T>
[[nodiscard]] Result<> gated_activation_bound(TensorView<T const, 2, Host> gate, TensorView<T const, 2, Host> up,
                                              TensorView<T, 2, Host> out, ActivationKind kind, HostStream& stream) {
    if (!stream.isa()) return stream.isa().error();
    auto const kernel = detail::choose_kernel<void (*)(T const*, T const*, T*, std::int64_t, ActivationKind)>(
        *stream.isa(), SHARDWISE_KERNEL_LEVELS(gate_row<T>));
    auto const apply = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        kernel(gate.row(row) + begin, up.row(row) + begin, out.row(row) + begin, end - begin, kind);
    };
    detail::launch_pieces({gate.extent(0), gate.extent(1)}, apply, stream);
    return {};
}

}  // namespace detail

/// out = activation(gate) * up, the gated unit of llama's MLP (SwiGLU) and its kin. swiglu_clamped (gpt_oss) is
/// min(gate, 7) * sigmoid(1.702 min(gate, 7)) * (clamp(up, -7, 7) + 1).
///
/// Shapes  gate, up, out [rows, width], out may be gate or up
/// Order   on `stream`
/// Errors  shape_mismatch; unsupported for xielu, a kernel of its own; what the stream says of its instruction set
/// Source  Shazeer, GLU Variants Improve Transformer, 2020; transformers 4.57 GptOssExperts
template <ActivationElement T>
[[nodiscard]] Result<> gated_activation(TensorView<T const, 2, Host> gate, TensorView<T const, 2, Host> up,
                                        TensorView<T, 2, Host> out, ActivationKind kind, HostStream& stream) {
    if (auto const known = detail::check_kind("gated_activation", kind); !known) return known;
    if (auto const known = check_views("gated_activation", gate, up, out); !known) return known;
    auto const width = gate.extent(1);
    if (auto const checked = detail::check_rows("gated_activation", gate, width, out); !checked) return checked;
    if (auto const checked = detail::check_gate("gated_activation", gate, up); !checked) return checked;
    return detail::gated_activation_bound<T>(gate, up, out, kind, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
