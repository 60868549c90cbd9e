// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/add.hpp>
#include <shardwise/kernels/fill.hpp>

#include <concepts>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Floats of a sum [rows, width] that is made in float before it is rounded to activations; none where those are floats.
[[nodiscard]] constexpr std::int64_t rounded_sum_floats(std::int64_t rows, std::int64_t width, Dtype activations) {
    return activations == Dtype::f32 ? 0 : rows * width;
}

/// Makes a sum in float, sum(floats, workspace) -> Result<>, and rounds it once to what `out` has.
///
/// Shapes  out [rows, width] dense; workspace [rounded_sum_floats(...) and what `sum` needs] or more
/// Order   on `stream`
template <class Backend, class T, class Sum>
[[nodiscard]] Result<> sum_rounded(TensorView<T, 2, Backend> out, TensorView<float, 1, Backend> workspace,
                                   typename Backend::Stream& stream, Sum const& sum) {
    if constexpr (std::same_as<T, float>) {
        return sum(out, workspace);
    } else {
        auto const size = out.elements();
        TensorView<float, 2, Backend> const floats(workspace.data(), {out.extent(0), out.extent(1)});
        if (auto const done = sum(floats, workspace.part(size, workspace.elements() - size)); !done) return done;
        if (auto const done = fill<T>(out, 0.0F, stream); !done) return done;
        return add<T>(TensorView<T const, 2, Backend>(out), TensorView<float const, 2, Backend>(floats), out, stream);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
