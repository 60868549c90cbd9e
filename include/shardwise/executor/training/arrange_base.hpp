// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/products.hpp>
#include <shardwise/executor/load_parameter.hpp>
#include <shardwise/executor/stored_rows.hpp>
#include <shardwise/executor/training/held_base.hpp>
#include <shardwise/executor/training/training_layout.hpp>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows of a file's weight in the order of what its product makes.
[[nodiscard]] inline std::vector<UnitRange> rows_of(ParameterReader const& reader, StoredParameters const& stored) {
    auto const& op = *reader.operation;
    return stored_rows(op, stored.model(), stored.is_gguf(), {{0, op.out_features}});
}
/// All of a packed matrix.
[[nodiscard]] inline Result<std::vector<float>> matrix_floats(ParameterLoader<Host>& loader,
                                                              StoredParameter const& found) {
    auto const& shape = found.tensor->shape;
    if (found.tensor->is_transposed)
        return Error{ErrorCode::unsupported}.in(found.name).because("is packed by columns, outside of layers");
    auto const matrix = loader.matrix(found, {.outputs = shape[0], .inputs = shape[1]});
    if (!matrix) return matrix.error();
    auto const& data = matrix->source().data;
    std::vector<float> out(data.size() / sizeof(float));
    std::memcpy(out.data(), data.data(), data.size());
    return out;
}
/// Biases in the order of a held product's rows; norms as the model's files have them, where GGUF adds 1.
[[nodiscard]] inline Result<> arrange_values(ParameterReader const& reader, StoredParameters const& stored,
                                             TrainedAdapter const& adapter, TrainingParameter const& parameter,
                                             std::vector<float>& values) {
    auto const& op = *reader.operation;
    auto const added = op.kind == OpKind::norm ? stored_norm_offset(op.norm().kind, stored.is_gguf()) : 0.0F;
    if (added != 0.0F) {
        for (auto& value : values) value -= added;
    }
    if (op.kind != OpKind::linear || reader.slot == 0) return {};
    auto const weight = parameter.name.substr(0, parameter.name.rfind('.')) + ".weight";
    if (adapter.options().held.count(weight) == 0) return {};
    std::vector<float> ordered;
    for (auto const& range : rows_of(reader, stored))
        ordered.insert(ordered.end(), values.begin() + range.begin, values.begin() + range.end);
    if (ordered.size() != values.size())
        return Error{ErrorCode::shape_mismatch}.in(parameter.name).because("is another vector than its product's");
    values = std::move(ordered);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
