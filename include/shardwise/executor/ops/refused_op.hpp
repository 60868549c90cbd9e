// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/op/visit_op.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Whether a back end has the kernels that an operation of the kind calls. What some of its forms need beside, it refuses itself.
template <class Op, class Backend>
inline constexpr bool executes_op = HasHostMemory<Backend> || !std::is_same_v<Op, GatedDeltaOp>;

/// An operation that a back end has no kernels for: a model with it is refused there before it is loaded.
template <class Op, ComputeBackend Backend, ReductionPolicy Policy>
struct RefusedOp {
    [[nodiscard]] static Result<HeldOperation<Backend, Policy>> load(OperationLoader<Backend> const&, Operation const&,
                                                                     BlockBody const&, BlockCut const&) {
        return refusal();
    }
    [[nodiscard]] static Result<> count(MemoryTally&, CountedBlock const&, Operation const&, ParameterFormat) {
        return refusal();
    }
    [[nodiscard]] static std::int64_t scratch(CountedBlock const&, Operation const&, std::size_t) { return 0; }
    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>&, Operation const&, std::size_t) {
        return refusal();
    }

private:
    [[nodiscard]] static Error refusal() {
        return no_kernel<Backend>("the operation \"" + std::string(Op::name) + "\"");
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
