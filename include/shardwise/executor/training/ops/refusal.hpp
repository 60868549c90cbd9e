// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/visit_op.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

struct TrainingRefusal {
    Operation const& op;
    Value const& in;

    std::string_view operator()(NormOp) const {
        if (op.parameters[0].empty()) return "a norm without weights is not trained yet";
        if (op.norm == NormKind::layer_offset) return "a layer norm with an offset (nemotron) is not trained yet";
        return {};
    }
    std::string_view operator()(LinearOp) const {
        return op.in_features == in.width ? "" : "a product of some of the columns is not trained yet";
    }
    std::string_view operator()(EmbeddingOp) const {
        return op.skipped_id >= 0 ? "positions that padding lacks (roberta) are not trained yet" : "";
    }
    template <class Other>
    std::string_view operator()(Other) const {
        return {};
    }
};

/// Why an operation that has a gradient is not trained; empty where it is. `in` is its first input.
[[nodiscard]] inline std::string_view training_refusal(Operation const& op, Value const& in) {
    return visit_op(op.kind, TrainingRefusal{op, in});
}

struct MakesGradientsTogether {
    bool operator()(AttentionOp) const { return true; }
    bool operator()(ActivationOp) const { return true; }
    template <class Other>
    bool operator()(Other) const {
        return false;
    }
};

/// True for operations whose kernel makes the gradients of all inputs at once, or adds to all of them.
[[nodiscard]] inline bool makes_gradients_together(Operation const& op) {
    return visit_op(op.kind, MakesGradientsTogether{});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
