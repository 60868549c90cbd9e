// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/activation.hpp>
#include <shardwise/op/add.hpp>
#include <shardwise/op/attention.hpp>
#include <shardwise/op/combine.hpp>
#include <shardwise/op/embedding.hpp>
#include <shardwise/op/experts.hpp>
#include <shardwise/op/last_token.hpp>
#include <shardwise/op/linear.hpp>
#include <shardwise/op/norm.hpp>
#include <shardwise/op/rope.hpp>
#include <shardwise/op/route.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What any operation costs on one rank.
[[nodiscard]] constexpr OpWork op_work(Operation const& op, OpContext const& context) {
    switch (op.kind) {
        case OpKind::embedding: return embedding_work(op, context);
        case OpKind::norm: return norm_work(op, context);
        case OpKind::linear: return linear_work(op, context);
        case OpKind::rope: return rope_work(op, context);
        case OpKind::attention: return attention_work(op, context);
        case OpKind::activation: return activation_work(op, context);
        case OpKind::add: return add_work(op, context);
        case OpKind::route: return route_work(op, context);
        case OpKind::experts: return experts_work(op, context);
        case OpKind::combine: return combine_work(op, context);
        case OpKind::last_token: return last_token_work(op, context);
    }
    return {};
}

/// True for operations that read an element (of a norm: a row) before they write it, so that the output may take an
/// input's place.
[[nodiscard]] constexpr bool is_element_wise(OpKind kind) {
    return kind == OpKind::activation || kind == OpKind::add || kind == OpKind::norm;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
