// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/delta_weights.hpp>
#include <shardwise/op/operation.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a gated delta rule is called with, on any back end; `needed`: floats of workspace.
template <class T, class Backend>
[[nodiscard]] Result<> check_gated_delta(TensorView<T const, 2, Backend> const& in,
                                         TensorView<T const, 2, Backend> const& ba, DeltaShape const& shape,
                                         DeltaWeights<Backend> const& weights,
                                         TensorView<float, 1, Backend> const& state,
                                         TensorView<float, 1, Backend> const& workspace, std::int64_t needed,
                                         TensorView<T, 2, Backend> const& out) {
    auto const known = check_views("gated_delta", in, ba, weights.convolution, weights.dt_bias, weights.decay,
                                   weights.norm, state, workspace, out);
    if (!known) return known;
    auto const heads = shape.key_heads;
    auto const checked = [&](std::string_view name, std::int64_t got, std::int64_t expected) -> Result<> {
        if (got == expected) return {};
        return Error{ErrorCode::shape_mismatch}
            .in("gated_delta")
            .at(name)
            .because("does not have the size that the heads need")
            .got(got)
            .expected(expected);
    };
    auto const values = shape.value_columns();
    if (auto const ok = checked("in", in.extent(1), heads * (shape.channels() + values)); !ok) return ok;
    if (auto const ok = checked("ba", ba.extent(1), heads * 2 * shape.values_per_key()); !ok) return ok;
    if (auto const ok = checked("out", out.extent(1), heads * values); !ok) return ok;
    if (auto const ok = checked("ba", ba.extent(0), in.extent(0)); !ok) return ok;
    if (auto const ok = checked("out", out.extent(0), in.extent(0)); !ok) return ok;
    if (auto const ok = checked("state", state.elements(), shape.state_elements(heads)); !ok) return ok;
    return checked("workspace", std::min(workspace.elements(), needed), needed);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
