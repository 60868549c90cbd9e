// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/element_backward.hpp>
#include <shardwise/kernels/detail/lanes_backward.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Of out = factor * in: in_gradient = factor * out_gradient, or += it. With a factor of 1 it is what an addition hands to each of its
/// inputs.
///
/// Shapes  out_gradient, in_gradient [rows, width], which may be the same
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
[[nodiscard]] inline Result<> scale_backward(TensorView<float const, 2, Host> out_gradient,
                                             TensorView<float, 2, Host> in_gradient, bool is_added, float factor,
                                             HostStream& stream) {
    if (!stream.isa()) return stream.isa().error();
    using Kernel = void (*)(float const*, float*, std::int64_t, float, bool);
    auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(scale_backward_row));
    auto const apply = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        kernel(out_gradient.row(row) + begin, in_gradient.row(row) + begin, end - begin, factor, is_added);
    };
    return detail::launch_elements("scale_backward", out_gradient, out_gradient, in_gradient, stream, apply);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
