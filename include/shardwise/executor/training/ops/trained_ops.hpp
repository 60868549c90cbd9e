// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/ops/activation.hpp>
#include <shardwise/executor/training/ops/add.hpp>
#include <shardwise/executor/training/ops/attention.hpp>
#include <shardwise/executor/training/ops/embedding.hpp>
#include <shardwise/executor/training/ops/last_token.hpp>
#include <shardwise/executor/training/ops/linear.hpp>
#include <shardwise/executor/training/ops/norm.hpp>
#include <shardwise/executor/training/ops/rope.hpp>
#include <shardwise/executor/training/ops/scale.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Calls `rule` with the TrainedOp of a kind.
template <class Rule>
decltype(auto) visit_trained(OpKind kind, Rule&& rule) {
    return visit_op(kind, [&]<class Op>(Op) -> decltype(auto) { return rule(TrainedOp<Op>{}); });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
