// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/executor/held_block.hpp>
#include <shardwise/parallel/device_expert_parallel.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// One block in one step: what its operations read, and where they compute. Activations between them are T.
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C, ActivationElement T>
struct BlockWalk {
    using Stream = typename Backend::Stream;
    using Matrix = TensorView<T, 2, Backend>;
    using ConstMatrix = TensorView<T const, 2, Backend>;
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

    [[nodiscard]] Matrix view(BoundValue const& value) const { return as<T>(value); }
    /// Of a value that lies in float whatever T is.
    [[nodiscard]] TensorView<float, 2, Backend> floats(BoundValue const& value) const { return as<float>(value); }
    template <class Element>
    [[nodiscard]] TensorView<Element, 2, Backend> as(BoundValue const& value) const {
        return {reinterpret_cast<Element*>(value.data), {rows_of(value.rows), value.width}};
    }
    [[nodiscard]] std::int64_t rows_of(Rows rows) const {
        switch (rows) {
            case Rows::tokens:
                return tokens;
            case Rows::sequences:
                return sequences;
            case Rows::routed:
                break;
        }
        return routed_rows;
    }
    /// True for what is computed by experts, a row for each that a token chose.
    [[nodiscard]] static bool is_routed(Bound const& op) { return op.output.rows == Rows::routed; }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
