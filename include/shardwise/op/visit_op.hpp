// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/activation.hpp>
#include <shardwise/op/add.hpp>
#include <shardwise/op/attention.hpp>
#include <shardwise/op/combine.hpp>
#include <shardwise/op/embedding.hpp>
#include <shardwise/op/experts.hpp>
#include <shardwise/op/gated_delta.hpp>
#include <shardwise/op/last_token.hpp>
#include <shardwise/op/linear.hpp>
#include <shardwise/op/norm.hpp>
#include <shardwise/op/part.hpp>
#include <shardwise/op/rope.hpp>
#include <shardwise/op/route.hpp>
#include <shardwise/op/scale.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Calls `rule` with the struct of a kind of operation: rules are overloaded over these structs, or read what they state. The only
/// switch over the kinds: a rule without an overload for a new kind does not compile.
///
/// Example  visit_op(op.kind, [](auto of) { return of.unit == OpUnit::products; })
template <class Rule>
constexpr decltype(auto) visit_op(OpKind kind, Rule&& rule) {
    switch (kind) {
        case OpKind::embedding: return rule(EmbeddingOp{});
        case OpKind::norm: return rule(NormOp{});
        case OpKind::linear: return rule(LinearOp{});
        case OpKind::rope: return rule(RopeOp{});
        case OpKind::attention: return rule(AttentionOp{});
        case OpKind::activation: return rule(ActivationOp{});
        case OpKind::add: return rule(AddOp{});
        case OpKind::route: return rule(RouteOp{});
        case OpKind::experts: return rule(ExpertsOp{});
        case OpKind::combine: return rule(CombineOp{});
        case OpKind::last_token: return rule(LastTokenOp{});
        case OpKind::scale: return rule(ScaleOp{});
        case OpKind::part: return rule(PartOp{});
        case OpKind::gated_delta: return rule(GatedDeltaOp{});
    }
    __builtin_unreachable();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
