// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The most elements of one model and of one activation that sizes are computed for. With them, and with max_tokens,
/// no sum over one rank leaves 63 bits.
inline constexpr std::int64_t max_parameters = std::int64_t{1} << 42U;
inline constexpr std::int64_t max_value_elements = std::int64_t{1} << 44U;

/// Refuses models and requests whose sizes would overflow; a config from outside may claim anything.
///
/// Errors  size_overflow, naming the tensor or the value
[[nodiscard]] constexpr Result<> check_sizes(Model const& model, EstimateRequest const& request) {
    auto const too_large = [](std::string_view what, std::string_view reason, std::int64_t limit) {
        return Error{ErrorCode::size_overflow}.at(what).because(reason).at_most(limit);
    };
    auto const instances = count_instances(model.tree);
    std::int64_t total = 0;
    for (std::size_t id = 0; id < instances.size(); ++id) {
        auto const& module = model.tree.module(static_cast<ModuleId>(id));
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            auto const& tensor = model.tree.tensor(module, i);
            auto const elements = tensor.shape.checked_elements();
            auto const all = elements ? checked_multiply(*elements, instances[id]) : elements;
            auto const sum = all ? checked_add(total, *all) : all;
            bool const is_stored_small = tensor.stored_bytes <= 8 * max_parameters;
            if (!sum || *sum > max_parameters || !is_stored_small) {
                return too_large(tensor.name, "brings the model to more elements than sizes are computed for",
                                 max_parameters);
            }
            total = *sum;
        }
    }
    auto const tokens = request.batch * context_of(request, model.config);
    for (auto const& body : model.program.bodies()) {
        auto const per_token = op_context(body, {}).experts_per_token;
        for (auto const& value : body.values()) {
            bool const is_short = value.rows == Rows::sequences && !request.training;
            auto const rows = checked_multiply(is_short ? request.batch : tokens,
                                               value.rows == Rows::routed && per_token > 0 ? per_token : 1);
            auto const elements = rows ? checked_multiply(*rows, value.width) : rows;
            if (!elements || *elements > max_value_elements) {
                return too_large(value.name, "has more elements in a batch of this context than sizes are computed for",
                                 max_value_elements)
                    .fix("lower batch or context");
            }
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
