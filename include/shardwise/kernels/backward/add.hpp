// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/element_backward.hpp>
#include <shardwise/kernels/detail/lanes_backward.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Of out = a + b: each of the two has the gradient of the sum. in_gradient = out_gradient, or += it: once for each input whose
/// gradient does not share the memory of the output's.
///
/// Shapes  out_gradient, in_gradient [rows, width], which do not overlap
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
[[nodiscard]] inline Result<> add_backward(TensorView<float const, 2, Host> out_gradient,
                                           TensorView<float, 2, Host> in_gradient, bool is_added, HostStream& stream) {
    if (!stream.isa()) return stream.isa().error();
    using Kernel = void (*)(float const*, float const*, float*, std::int64_t);
    auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(add_rows));
    auto const apply = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        auto* const to = in_gradient.row(row) + begin;
        kernel(out_gradient.row(row) + begin, is_added ? to : nullptr, to, end - begin);
    };
    return detail::launch_elements("add_backward", out_gradient, out_gradient, in_gradient, stream, apply);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
