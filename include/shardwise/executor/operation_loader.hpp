// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/brief_memory.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/executor/held_experts.hpp>
#include <shardwise/executor/load_parameter.hpp>
#include <shardwise/executor/memory_tally.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/parallel/place.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The parameters of one block for one rank, by the names that its operations know them by.
template <ComputeBackend Backend>
class OperationLoader {
public:
    /// `prefix` is the block's module, which parameters' names follow; `experts` the rank's share of the experts,
    /// `layer` its number among layers.
    OperationLoader(ParameterLoader<Backend>& parameters, Model const& model, std::string prefix, TensorPlace place,
                    TensorPlace experts = {}, std::int64_t layer = 0)
        : parameters_(parameters),
          model_(model),
          prefix_(std::move(prefix)),
          place_(place),
          experts_(experts),
          layer_(layer) {}

    [[nodiscard]] ParameterLoader<Backend>& parameters() const { return parameters_; }
    [[nodiscard]] typename Backend::Context& context() const { return parameters_.context(); }
    [[nodiscard]] Model const& model() const { return model_; }
    [[nodiscard]] TensorPlace const& place() const { return place_; }
    [[nodiscard]] bool is_gguf() const { return parameters_.parameters().is_gguf(); }

    [[nodiscard]] TensorPlace const& experts() const { return experts_; }
    [[nodiscard]] std::int64_t layer() const { return layer_; }

    [[nodiscard]] std::string name_of(std::string_view parameter, std::int64_t expert = 0) const {
        return parameter_name(prefix_, parameter, expert);
    }
    [[nodiscard]] Result<StoredParameter> find(std::string_view parameter, std::int64_t expert = 0) const {
        return parameters_.find(name_of(parameter, expert));
    }

    /// How an operation's first parameter is held.
    [[nodiscard]] Result<ParameterFormat> format_of(Operation const& op) const {
        auto const stored = find(op.parameters[0], own_experts(op, experts_).begin);
        if (!stored) return stored.error();
        auto const held = parameters_.format_of(*stored);
        if (!held) return held.error();
        return ParameterFormat{held->format, held->group, stored->tensor->shard.kind == ShardKind::replicated};
    }
    /// What the inputs of a product's weight are sharded by.
    [[nodiscard]] Result<WeightGrain> grain_of(Operation const& op) const {
        auto const held = format_of(op);
        if (!held) return held.error();
        return weight_grain(held->format, held->group);
    }

    /// A vector or some ranges of it; nothing where the operation has none.
    [[nodiscard]] Result<Buffer<float, Backend>> hold_vector(
        std::string_view parameter, std::int64_t count, std::optional<std::span<UnitRange const>> ranges = {}) const {
        auto const values = floats(parameter, count, ranges);
        if (!values) return values.error();
        return hold_floats<Backend>(context(), *values);
    }
    /// The same for a while: what it is copied into outlives it.
    [[nodiscard]] Result<Buffer<float, Backend>> hold_briefly(
        std::string_view parameter, std::int64_t count, std::optional<std::span<UnitRange const>> ranges = {}) const {
        using Brief = BriefMemory<typename Backend::Context>;
        Brief const brief(context(), Brief::Of::all);
        return hold_vector(parameter, count, ranges);
    }
    /// The same in the host's memory.
    [[nodiscard]] Result<std::vector<float>> floats(std::string_view parameter, std::int64_t count,
                                                    std::optional<std::span<UnitRange const>> ranges = {}) const {
        if (parameter.empty()) return std::vector<float>{};
        auto const stored = find(parameter);
        if (!stored) return stored.error();
        return parameters_.floats(*stored, count, ranges);
    }

private:
    ParameterLoader<Backend>& parameters_;
    Model const& model_;
    std::string prefix_;
    TensorPlace place_;
    TensorPlace experts_;
    std::int64_t layer_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
