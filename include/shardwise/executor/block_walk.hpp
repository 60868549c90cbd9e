// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/executor/held_block.hpp>
#include <shardwise/parallel/device_expert_parallel.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// One block in one step: what its operations read, and where they compute.
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C>
struct BlockWalk {
    using Stream = typename Backend::Stream;
    using Matrix = TensorView<float, 2, Backend>;
    using Vector = TensorView<float const, 1, Backend>;

    using Bound = BoundOperation<Backend, Policy>;

    HeldBlock<Backend, Policy> const& block;
    StepView<Backend> const& step;
    WalkState<Backend>& state;
    C& comm;
    /// Null where the rank has all experts.
    ExpertParallel<Backend, C>* exchange;
    Stream& stream;
    std::int64_t tokens;
    std::int64_t sequences;
    /// Pairs of a token and an expert.
    std::int64_t routed_rows = 0;

    [[nodiscard]] Matrix view(BoundValue const& value) const {
        auto const rows = value.rows == Rows::routed ? routed_rows : value.rows == Rows::sequences ? sequences : tokens;
        return {value.data, {rows, value.width}};
    }
    /// True for what is computed by experts, a row for each that a token chose.
    [[nodiscard]] static bool is_routed(Bound const& op) { return op.output.rows == Rows::routed; }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
