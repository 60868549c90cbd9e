// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/visit_op.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Why models as a whole are not trained.
inline constexpr std::string_view both_directions_refusal =
    "sees tokens in both directions: predicting the next one does not train it";
inline constexpr std::string_view labels_refusal = "scores labels, which has no gradient yet";

struct TrainingRefusal {
    Operation const& op;
    Value const& in;

    std::string_view operator()(NormOp) const {
        if (op.parameters[0].empty()) return "a norm without weights is not trained yet";
        if (op.norm().kind == NormKind::layer_offset)
            return "a layer norm with an offset is not trained yet";
        return {};
    }
    std::string_view operator()(LinearOp) const {
        return op.in_features == in.width ? "" : "a product of some of the columns is not trained yet";
    }
    std::string_view operator()(EmbeddingOp) const {
        if (op.table().index == TableIndex::token_type) return "types of tokens are not trained yet";
        return op.table().skipped_id >= 0 ? "positions that padding lacks are not trained yet" : "";
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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
