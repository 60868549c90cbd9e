#pragma once

#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/held_experts.hpp>
#include <shardwise/executor/load_parameter.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline v0_2_0::detail {

/// Loads the experts of one block for one rank: those of its expert-parallel share, and of each the columns of its
/// tensor-parallel share. Checkpoints hold a tensor per expert, or one in which all are stacked (gpt_oss).
template <ComputeBackend Backend, ReductionPolicy Policy>
class ExpertLoader {
public:
    /// `prefix` is the block's module, which parameters' names follow.
    ExpertLoader(typename Backend::Context& context, StoredParameters const& parameters, std::string_view prefix,
                 TensorPlace place, TensorPlace experts)
        : context_(context), parameters_(parameters), prefix_(prefix), place_(place), experts_(experts) {}

    /// Inputs of an expert's weight that cannot be parted.
    [[nodiscard]] Result<std::int64_t> grain_of(Operation const& op) const {
        auto const stored = find(op.parameters[0], own(op).begin);
        if (!stored) return stored.error();
        return input_grain(stored->format);
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
            auto const part = part_of(op, expert, rows, {0, op.in_features});
            if (!part) return part.error();
            auto const bias = bias_of(op, expert);
            if (!bias) return bias.error();
            std::vector<float> own_bias;
            for (auto const& range : rows) {
                if (bias->empty()) break;
                own_bias.insert(own_bias.end(), bias->begin() + range.begin, bias->begin() + range.end);
            }
            UnitRange const all[] = {{0, part->source.outputs}};
            auto column = ColumnLinear<Backend>::create(context_, part->source, all, view(own_bias));
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
            auto const bias = bias_of(op, expert);
            if (!bias) return bias.error();
            auto const held = out.hold(context_, part->source, out.own_inputs().begin, view(*bias));
            if (!held) return named(held.error(), op, expert);
        }
        return Result<ExpertRows<Backend, Policy>>(std::move(out));
    }

private:
    /// Some rows and inputs of an expert's weight.
    struct Part {
        WeightSource source;
        std::vector<std::byte> turned;
        std::optional<WeightSlice> slice;
    };

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
        return parameters_.find(name_of(parameter, expert));
    }
    [[nodiscard]] Error named(Error error, Operation const& op, std::int64_t expert) const {
        return error.at(name_of(op.parameters[0], expert));
    }

    [[nodiscard]] Result<Part> part_of(Operation const& op, std::int64_t expert, std::vector<UnitRange> const& rows,
                                       UnitRange inputs) const {
        auto stored = find(op.parameters[0], expert);
        if (!stored) return stored.error();
        bool const stacks = is_stacked(op.parameters[0]);
        auto const count = stacks ? op.experts : 1;
        if (auto const checked =
                check_elements(*stored, count * op.out_features * op.in_features, op.parameters[0], expert);
            !checked)
            return checked.error();
        auto const nth = [&](std::span<std::byte const> all) {
            auto const size = all.size() / static_cast<std::size_t>(count);
            return stacks ? all.subspan(static_cast<std::size_t>(expert) * size, size) : all;
        };
        WeightSource const whole{.format = stored->format,
                                 .outputs = op.out_features,
                                 .inputs = op.in_features,
                                 .data = nth(stored->data),
                                 .scales = {}};
        if (auto const checked = check_source(whole); !checked) return named(checked.error(), op, expert);
        // gpt_oss stacks [experts, inputs, outputs] of whole numbers; blocks lie along the inputs.
        bool const is_turned = stacks && traits(stored->format).block_elements == 1;
        if (is_turned) return turn(whole, rows, inputs);
        auto slice = slice_weight(whole, rows, inputs);
        if (!slice) return named(slice.error(), op, expert);
        Part part;
        part.source = slice->source();
        part.slice = std::move(*slice);
        return Result<Part>(std::move(part));
    }

    /// A part of a weight that is stored [inputs, outputs], in the order of the others.
    [[nodiscard]] static Part turn(WeightSource const& whole, std::vector<UnitRange> const& rows, UnitRange inputs) {
        auto const size = static_cast<std::size_t>(traits(whole.format).block_bytes);
        Part part;
        part.source = whole;
        part.source.inputs = inputs.size();
        part.source.outputs = 0;
        for (auto const& range : rows) part.source.outputs += range.size();
        part.turned.resize(static_cast<std::size_t>(part.source.outputs * inputs.size()) * size);
        for (auto input = inputs.begin; input < inputs.end; ++input) {
            std::int64_t row = 0;
            for (auto const& range : rows) {
                for (auto output = range.begin; output < range.end; ++output, ++row) {
                    auto const from = static_cast<std::size_t>(input * whole.outputs + output) * size;
                    auto const to = static_cast<std::size_t>(row * inputs.size() + input - inputs.begin) * size;
                    std::memcpy(part.turned.data() + to, whole.data.data() + from, size);
                }
            }
        }
        part.source.data = part.turned;
        return part;
    }

    /// An expert's biases; nothing where it has none.
    [[nodiscard]] Result<std::vector<float>> bias_of(Operation const& op, std::int64_t expert) const {
        if (op.parameters[1].empty()) return std::vector<float>{};
        auto const stored = find(op.parameters[1], expert);
        if (!stored) return stored.error();
        auto const count = is_stacked(op.parameters[1]) ? op.experts : 1;
        if (auto const checked = check_elements(*stored, count * op.out_features, op.parameters[1], expert); !checked)
            return checked.error();
        WeightSource const rows{
            .format = stored->format, .outputs = count, .inputs = op.out_features, .data = stored->data, .scales = {}};
        if (auto const checked = check_source(rows); !checked) return named(checked.error(), op, expert);
        std::vector<float> bias(static_cast<std::size_t>(op.out_features));
        decode_source(rows, count == 1 ? 0 : expert, 0, op.out_features, bias.data());
        return bias;
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

    typename Backend::Context& context_;
    StoredParameters const& parameters_;
    std::string prefix_;
    TensorPlace place_;
    TensorPlace experts_;
};

}  // namespace shardwise::inline v0_2_0::detail
