// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/block_walk.hpp>
#include <shardwise/executor/held_operation.hpp>
#include <shardwise/executor/memory_tally.hpp>
#include <shardwise/executor/operation_loader.hpp>
#include <shardwise/op/visit_op.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How a rank executes the operations of one kind; `executor/ops/<kind>.hpp` has it for `Op` of `op/<kind>.hpp`:
///
///     static Result<HeldOperation<Backend, Policy>> load(OperationLoader<Backend> const&, Operation const&, BlockBody const&,
///                                                        BlockCut const&);    // what the rank holds of it, and how it computes
///     static Result<> count(MemoryTally&, CountedBlock const&, Operation const&, ParameterFormat);    // its bytes
///     static std::int64_t scratch(CountedBlock const&, Operation const&, std::size_t number);    // floats, in any step
///     static Result<> check(BoundOperation<Backend, Policy> const&, BoundTo<Backend> const&);    // whether it fits between its
///         // values, whose rows are of one kind unless it says changes_rows, once it is bound; the host's kernels do not ask again
///     template <Communicator C, ActivationElement T>
///     static Result<> run(BlockWalk<Backend, Policy, C, T>&, BoundOperation<Backend, Policy> const&);    // one step
template <class Op, ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp;

/// What a block's operations compute with beside their values.
template <ComputeBackend Backend>
struct BoundTo {
    KvCache<Backend> const& cache;
    std::size_t cache_layer;
    StepRotations<Backend> const& rotations;
    std::size_t rotation;
};

/// A row of a bound value: what kernels ask of its columns holds for any number of rows.
template <ComputeBackend Backend>
[[nodiscard]] TensorView<float, 2, Backend> row_of(BoundValue const& value) {
    return {reinterpret_cast<float*>(value.data), {1, value.width}};
}

/// Of operations that hold and need nothing.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct HoldsNothing {
    [[nodiscard]] static Result<HeldOperation<Backend, Policy>> load(OperationLoader<Backend> const&, Operation const&,
                                                                     BlockBody const&, BlockCut const&) {
        return HeldOperation<Backend, Policy>{};
    }
    [[nodiscard]] static Result<> count(MemoryTally&, CountedBlock const&, Operation const&, ParameterFormat) {
        return {};
    }
    [[nodiscard]] static std::int64_t scratch(CountedBlock const&, Operation const&, std::size_t) { return 0; }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
