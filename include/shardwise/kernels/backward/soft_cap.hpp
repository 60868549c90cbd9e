// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/check_cap.hpp>
#include <shardwise/kernels/detail/element_backward.hpp>
#include <shardwise/kernels/detail/lanes_backward.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Of out = cap * tanh(in / cap): in_gradient = out_gradient * (1 - tanh(in / cap)^2), or += it (gemma2's logits).
///
/// Shapes  in, out_gradient, in_gradient [rows, width]; in_gradient may be one of the others
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for a cap that is not above 0, or not finite; what the stream says of its instruction set
[[nodiscard]] inline Result<> soft_cap_backward(TensorView<float const, 2, Host> in,
                                                TensorView<float const, 2, Host> out_gradient,
                                                TensorView<float, 2, Host> in_gradient, bool is_added, float cap,
                                                HostStream& stream) {
    if (auto const known = detail::check_cap("soft_cap_backward", cap); !known) return known;
    if (!stream.isa()) return stream.isa().error();
    using Kernel = void (*)(float const*, float const*, float*, std::int64_t, float, bool);
    auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(soft_cap_backward_row));
    auto const apply = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        kernel(in.row(row) + begin, out_gradient.row(row) + begin, in_gradient.row(row) + begin, end - begin, cap,
               is_added);
    };
    return detail::launch_elements("soft_cap_backward", in, out_gradient, in_gradient, stream, apply);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
