// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// scale_rows for what is known to fit.
[[nodiscard]] inline Result<> scale_rows_bound(TensorView<float const, 2, Host> gate,
                                               TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                                               ActivationKind kind, HostStream& stream) {
    auto const scale = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        auto const factor = activate(gate.row(row)[0], kind);
        for (auto i = begin; i < end; ++i) out.row(row)[i] = factor * in.row(row)[i];
    };
    launch_pieces({in.extent(0), in.extent(1)}, scale, stream);
    return {};
}

}  // namespace detail

/// out = activation(gate) * in, where one number gates a whole row: qwen2_moe's shared expert.
///
/// Shapes  gate [rows, 1]; in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  transformers 4.57 Qwen2MoeSparseMoeBlock
[[nodiscard]] inline Result<> scale_rows(TensorView<float const, 2, Host> gate, TensorView<float const, 2, Host> in,
                                         TensorView<float, 2, Host> out, ActivationKind kind, HostStream& stream) {
    if (auto const checked = detail::check_rows("scale_rows", in, in.extent(1), out); !checked) return checked;
    if (auto const checked = detail::check_row_gate("scale_rows", gate, in.extent(0)); !checked) return checked;
    return detail::scale_rows_bound(gate, in, out, kind, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
