// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/held_experts.hpp>
#include <shardwise/executor/load_parameter.hpp>
#include <shardwise/parallel/place.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Loads the experts of one block for one rank: those of its expert-parallel share, and of each the columns of its
/// tensor-parallel share. Checkpoints hold a tensor per expert, or one in which all are stacked (gpt_oss).
template <ComputeBackend Backend, ReductionPolicy Policy>
class ExpertLoader {
public:
    /// `prefix` is the block's module, which parameters' names follow.
    ExpertLoader(ParameterLoader<Backend>& loader, std::string_view prefix, TensorPlace place, TensorPlace experts)
        : loader_(loader), context_(loader.context()), prefix_(prefix), place_(place), experts_(experts) {}

    /// What the inputs of an expert's weight are sharded by.
    [[nodiscard]] Result<WeightGrain> grain_of(Operation const& op) const {
        auto const stored = find(op.parameters[0], own(op).begin);
        if (!stored) return stored.error();
        auto const held = loader_.format_of(*stored);
        if (!held) return held.error();
        return weight_grain(held->format, held->group);
    }

    /// `ranges` are the rank's outputs. Where gate and up alternate in the file, they count all gates and then all ups.
    [[nodiscard]] Result<ExpertColumns<Backend>> load_columns(Operation const& op, std::vector<UnitRange> const& ranges,
                                                              bool is_alternating) const {
        std::vector<UnitRange> rows;
        for (auto const& range : ranges) {
            if (!is_alternating) {
                rows.push_back(range);
                continue;
            }
            auto const half = op.out_features / 2;
            for (auto column = range.begin; column < range.end; ++column) {
                auto const at = column < half ? 2 * column : 2 * (column - half) + 1;
                rows.push_back({at, at + 1});
            }
        }
        ExpertColumns<Backend> out;
        for (auto expert = own(op).begin; expert < own(op).end; ++expert) {
            auto const part = part_of(op, expert, rows);
            if (!part) return part.error();
            auto const bias = bias_of(op, expert, rows);
            if (!bias) return bias.error();
            UnitRange const all[] = {{0, part->source().outputs}};
            auto column = ColumnLinear<Backend>::create(context_, part->source(), all, view(*bias));
            if (!column) return named(column.error(), op, expert);
            out.experts.push_back(std::move(*column));
        }
        return Result<ExpertColumns<Backend>>(std::move(out));
    }

    [[nodiscard]] Result<ExpertRows<Backend, Policy>> load_rows(Operation const& op, InputPieces const& pieces) const {
        ExpertRows<Backend, Policy> out(pieces, place_, op.out_features);
        std::vector<UnitRange> const rows{{0, op.out_features}};
        for (auto expert = own(op).begin; expert < own(op).end; ++expert) {
            auto const part = part_of(op, expert, rows, out.own_inputs());
            if (!part) return part.error();
            auto const bias = bias_of(op, expert, rows);
            if (!bias) return bias.error();
            auto const held = out.hold(context_, part->source(), out.own_inputs().begin, view(*bias));
            if (!held) return named(held.error(), op, expert);
        }
        return Result<ExpertRows<Backend, Policy>>(std::move(out));
    }

private:
    [[nodiscard]] UnitRange own(Operation const& op) const {
        return split_units(op.experts, experts_.ranks, experts_.rank);
    }
    [[nodiscard]] static TensorView<float const, 1, Backend> view(std::vector<float> const& values) {
        return {values.data(), {static_cast<std::int64_t>(values.size())}};
    }
    [[nodiscard]] static bool is_stacked(std::string_view parameter) {
        return parameter.find('*') == std::string_view::npos;
    }
    [[nodiscard]] std::string name_of(std::string_view parameter, std::int64_t expert) const {
        auto name = prefix_ + "." + std::string(parameter);
        if (!is_stacked(parameter)) name.replace(name.find('*'), 1, std::to_string(expert));
        return name;
    }
    [[nodiscard]] Result<StoredParameter> find(std::string_view parameter, std::int64_t expert) const {
        auto stored = loader_.parameters().find(name_of(parameter, expert));
        if (!stored || !is_stacked(parameter)) return stored;
        return stored->part(expert, experts_of(*stored));
    }
    [[nodiscard]] Error named(Error error, Operation const& op, std::int64_t expert) const {
        return error.at(name_of(op.parameters[0], expert));
    }

    /// How many experts a stacked tensor holds.
    [[nodiscard]] static std::int64_t experts_of(StoredParameter const& stored) { return stored.tensor->shape[0]; }

    /// Some rows and inputs of an expert's weight.
    [[nodiscard]] Result<LoadedMatrix> part_of(Operation const& op, std::int64_t expert,
                                               std::vector<UnitRange> const& rows,
                                               std::optional<UnitRange> inputs = {}) const {
        auto const stored = find(op.parameters[0], expert);
        if (!stored) return stored.error();
        bool const stacks = is_stacked(op.parameters[0]);
        auto const count = stacks ? op.experts : 1;
        if (auto const checked =
                check_elements(*stored, count * op.out_features * op.in_features, op.parameters[0], expert);
            !checked)
            return checked.error();
        // gpt_oss stacks [experts, inputs, outputs].
        return loader_.matrix(*stored, {.outputs = op.out_features,
                                        .inputs = op.in_features,
                                        .is_turned = stacks,
                                        .rows = rows,
                                        .columns = inputs});
    }

    /// Some of an expert's biases; nothing where it has none.
    [[nodiscard]] Result<std::vector<float>> bias_of(Operation const& op, std::int64_t expert,
                                                     std::vector<UnitRange> const& rows) const {
        if (op.parameters[1].empty()) return std::vector<float>{};
        auto const stored = find(op.parameters[1], expert);
        if (!stored) return stored.error();
        auto const count = is_stacked(op.parameters[1]) ? op.experts : 1;
        if (auto const checked = check_elements(*stored, count * op.out_features, op.parameters[1], expert); !checked)
            return checked.error();
        return loader_.floats(*stored, op.out_features, rows);
    }
    [[nodiscard]] Result<> check_elements(StoredParameter const& stored, std::int64_t expected,
                                          std::string_view parameter, std::int64_t expert) const {
        if (stored.tensor->shape.elements() == expected) return {};
        return Error{ErrorCode::shape_mismatch}
            .in(name_of(parameter, expert))
            .because("has another number of elements than its product")
            .got(stored.tensor->shape.elements())
            .expected(expected);
    }

    ParameterLoader<Backend>& loader_;
    typename Backend::Context& context_;
    std::string prefix_;
    TensorPlace place_;
    TensorPlace experts_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
