// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/routes.hpp>
#include <shardwise/kernels/fill.hpp>
#include <shardwise/kernels/weigh_rows.hpp>

#include <concepts>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What experts read whose inputs are weighed (llama4): for each pair the token's row times the expert's weight, at the row that `places`
/// says, in `to`. The weights have then been taken, and are ones: what follows is a plain sum over a token's experts.
///
/// Shapes  in [tokens, width]; places [pairs]; to [pairs, width]
/// Order   on the walk's stream
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C, ActivationElement T>
[[nodiscard]] Result<> weigh_routed(BlockWalk<Backend, Policy, C, T>& walk, TensorView<T const, 2, Backend> in,
                                    Routes<Backend> const& routes, TensorView<std::int32_t const, 1, Backend> places,
                                    TensorView<T, 2, Backend> to) {
    TensorView<float const, 2, Backend> const weights = routes.weights;
    Result<> done;
    if constexpr (std::same_as<Backend, Host>)
        done = weigh_rows_bound<T>(in, places, weights, to, walk.stream);
    else
        done = weigh_rows<T>(in, places, weights, to, walk.stream);
    return done ? fill<float>(routes.weights, 1.0F, walk.stream) : done;
}

/// Floats of what groups of ranks send of weighed rows: the rows, and after them where each lies.
[[nodiscard]] constexpr std::int64_t sent_floats(std::int64_t pairs, std::int64_t width, std::int64_t experts,
                                                 Dtype activations) {
    return floats_of(pairs * width, activations) + pairs + experts + 1;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
