// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/executor/block_values.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/parallel/expert_parallel.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// One block in one step: what its operations read, and where they compute.
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C>
struct BlockWalk {
    using Stream = typename Backend::Stream;
    using Matrix = TensorView<float, 2, Backend>;
    using Vector = TensorView<float const, 1, Backend>;

    Model const& model;
    HeldBlock<Backend, Policy> const& block;
    StepView<Backend> const& step;
    WalkState<Backend>& state;
    C& comm;
    /// Null where the rank has all experts.
    ExpertParallel<Backend, C>* exchange;
    Stream& stream;
    BlockValues<Backend, Policy> values;

    [[nodiscard]] Matrix view(ValueId id) const { return values.view(id); }
    [[nodiscard]] HeldOperation<Backend, Policy> const& held(std::size_t operation) const {
        return block.operations[operation];
    }
    /// True for what is computed by experts, a row for each that a token chose.
    [[nodiscard]] bool is_routed(Operation const& op) const { return values.of(op.output).rows == Rows::routed; }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
