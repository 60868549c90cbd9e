// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/brief_memory.hpp>
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/held_experts.hpp>
#include <shardwise/executor/operation_loader.hpp>

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
    ExpertLoader(OperationLoader<Backend> const& from, Operation const& op)
        : from_(from), op_(op), own_(own_experts(op, from.experts())) {}

    /// `ranges` are the rank's outputs; where gates and ups alternate in the file, they count all gates and then all ups.
    [[nodiscard]] Result<ExpertColumns<Backend>> load_columns(std::vector<UnitRange> const& ranges) const {
        std::vector<UnitRange> rows;
        for (auto const& range : ranges) {
            if (!op_.routing().alternates) {
                rows.push_back(range);
                continue;
            }
            auto const half = op_.out_features / 2;
            for (auto column = range.begin; column < range.end; ++column) {
                auto const at = column < half ? 2 * column : 2 * (column - half) + 1;
                rows.push_back({at, at + 1});
            }
        }
        ExpertColumns<Backend> out;
        for (auto expert = own_.begin; expert < own_.end; ++expert) {
            auto const part = part_of(expert, rows);
            if (!part) return part.error();
            auto const bias = bias_of(expert, rows);
            if (!bias) return bias.error();
            UnitRange const all[] = {{0, part->source().outputs}};
            auto column = ColumnLinear<Backend>::create(from_.context(), part->source(), all, view(*bias),
                                                        Policy::has_fixed_tree);
            if (!column) return named(column.error(), expert);
            out.experts.push_back(std::move(*column));
        }
        if (auto const done = out.finish(from_.context()); !done) return done.error();
        return Result<ExpertColumns<Backend>>(std::move(out));
    }

    [[nodiscard]] Result<ExpertRows<Backend, Policy>> load_rows(InputPieces const& pieces) const {
        ExpertRows<Backend, Policy> out(pieces, from_.place(), op_.out_features);
        std::vector<UnitRange> const rows{{0, op_.out_features}};
        for (auto expert = own_.begin; expert < own_.end; ++expert) {
            auto const part = part_of(expert, rows, out.own_inputs());
            if (!part) return part.error();
            auto const bias = bias_of(expert, rows);
            if (!bias) return bias.error();
            auto const held = out.hold(from_.context(), part->source(), out.own_inputs().begin, view(*bias));
            if (!held) return named(held.error(), expert);
        }
        if (auto const done = out.finish(from_.context()); !done) return done.error();
        return Result<ExpertRows<Backend, Policy>>(std::move(out));
    }

private:
    [[nodiscard]] static TensorView<float const, 1, Backend> view(Buffer<float, Backend> const& values) {
        return values.view();
    }
    [[nodiscard]] static bool is_stacked(std::string_view parameter) {
        return parameter.find('*') == std::string_view::npos;
    }
    [[nodiscard]] Result<StoredParameter> find(std::string_view parameter, std::int64_t expert) const {
        auto stored = from_.find(parameter, expert);
        if (!stored || !is_stacked(parameter)) return stored;
        return stored->part(expert, experts_of(*stored));
    }
    [[nodiscard]] Error named(Error error, std::int64_t expert) const {
        return error.at(from_.name_of(op_.parameters[0], expert));
    }

    /// How many experts a stacked tensor holds.
    [[nodiscard]] static std::int64_t experts_of(StoredParameter const& stored) { return stored.tensor->shape[0]; }

    /// Some rows and inputs of an expert's weight.
    [[nodiscard]] Result<LoadedMatrix> part_of(std::int64_t expert, std::vector<UnitRange> const& rows,
                                               std::optional<UnitRange> inputs = {}) const {
        auto const stored = find(op_.parameters[0], expert);
        if (!stored) return stored.error();
        bool const stacks = is_stacked(op_.parameters[0]);
        auto const count = stacks ? op_.routing().experts : 1;
        if (auto const checked =
                check_elements(*stored, count * op_.out_features * op_.in_features, op_.parameters[0], expert);
            !checked)
            return checked.error();
        return from_.parameters().matrix(*stored, {.outputs = op_.out_features,
                                                   .inputs = op_.in_features,
                                                   .is_turned = stored->tensor->is_transposed,
                                                   .rows = rows,
                                                   .columns = inputs});
    }

    /// Some of an expert's biases; nothing where it has none.
    [[nodiscard]] Result<Buffer<float, Backend>> bias_of(std::int64_t expert,
                                                         std::vector<UnitRange> const& rows) const {
        if (op_.parameters[1].empty()) return Buffer<float, Backend>{};
        auto const stored = find(op_.parameters[1], expert);
        if (!stored) return stored.error();
        auto const count = is_stacked(op_.parameters[1]) ? op_.routing().experts : 1;
        if (auto const checked = check_elements(*stored, count * op_.out_features, op_.parameters[1], expert); !checked)
            return checked.error();
        auto const values = from_.parameters().floats(*stored, op_.out_features, rows);
        if (!values) return values.error();
        using Brief = BriefMemory<typename Backend::Context>;
        Brief const brief(from_.context(), Brief::Of::all);
        return hold_floats<Backend>(from_.context(), *values);
    }
    [[nodiscard]] Result<> check_elements(StoredParameter const& stored, std::int64_t expected,
                                          std::string_view parameter, std::int64_t expert) const {
        if (stored.tensor->shape.elements() == expected) return {};
        return Error{ErrorCode::shape_mismatch}
            .in(from_.name_of(parameter, expert))
            .because("has another number of elements than its product")
            .got(stored.tensor->shape.elements())
            .expected(expected);
    }

    OperationLoader<Backend> const& from_;
    Operation const& op_;
    UnitRange own_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
