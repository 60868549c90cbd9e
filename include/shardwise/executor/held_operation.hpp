// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/executor/held_experts.hpp>
#include <shardwise/executor/held_table.hpp>
#include <shardwise/executor/latent_attention.hpp>
#include <shardwise/parallel/column_linear.hpp>
#include <shardwise/parallel/row_linear.hpp>

#include <cstddef>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A norm's scale and shift; a norm without parameters has neither.
template <ComputeBackend Backend>
struct HeldNorm {
    Buffer<float, Backend> weight;
    Buffer<float, Backend> bias;
};

/// A vector that is no norm's: the sinks of an attention's own heads, the correction of a router.
template <ComputeBackend Backend>
struct HeldVector {
    Buffer<float, Backend> values;
};

/// Of a gated delta rule: what its key heads multiply with.
template <ComputeBackend Backend>
struct HeldDelta {
    Buffer<float, Backend> convolution;
    Buffer<float, Backend> dt_bias;
    /// -exp(A_log).
    Buffer<float, Backend> decay;
    Buffer<float, Backend> norm;
};

/// What a rank holds of one operation's parameters.
template <ComputeBackend Backend, ReductionPolicy Policy>
using HeldOperation = std::variant<std::monostate, HeldNorm<Backend>, HeldTable<Backend>, HeldVector<Backend>,
                                   ColumnLinear<Backend>, RowLinear<Backend, Policy>, LatentHeads<Backend>,
                                   ExpertColumns<Backend>, ExpertRows<Backend, Policy>, HeldDelta<Backend>>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
