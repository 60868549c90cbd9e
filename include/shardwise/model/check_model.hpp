// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/find_module.hpp>
#include <shardwise/model/low_rank_operations.hpp>
#include <shardwise/model/parameter_shard.hpp>
#include <shardwise/op/step.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Checks that the tree and the program of a model fit each other; the first error ends it.
class ModelChecker {
public:
    constexpr explicit ModelChecker(Model const& model) : tree_(model.tree), program_(model.program) {}

    constexpr Result<> check() const {
        if (tree_.modules().empty()) return Error{ErrorCode::invalid_argument}.because("the model has no modules");
        for (auto const& tensor : tree_.tensors()) {
            if (auto const checked = check_rule(tensor); !checked) return checked;
        }
        for (auto const& body : program_.bodies()) {
            if (auto const checked = check_values(body); !checked) return checked;
        }
        if (auto const checked = check_hand_over(); !checked) return checked;
        for (auto const& block : program_.blocks()) {
            if (auto const checked = check_block(block); !checked) return checked;
        }
        return check_layers();
    }

private:
    static constexpr std::int64_t max_ranks_checked = 8;

    static constexpr Error refusal(std::string_view in, std::string_view at, std::string_view reason,
                                   ErrorCode code = ErrorCode::shape_mismatch) {
        return Error{code}.in(in).at(at).because(reason);
    }

    /// Whole units along a dimension that the tensor has.
    static constexpr Result<> check_rule(Tensor const& tensor) {
        auto const& rule = tensor.shard;
        auto const wrong = [&](std::string_view reason) { return refusal("tree", tensor.name, reason); };
        if (rule.experts > 0 && (tensor.shape.rank() == 0 || tensor.shape[0] != rule.experts))
            return wrong("its shard rule names another number of experts than its first dimension has");
        if (!rule.is_shared()) return {};
        if (rule.dim >= tensor.shape.rank()) return wrong("its shard rule splits a dimension that it does not have");
        if (rule.count < 1) return wrong("its shard rule has no units");
        auto const units = rule.all_units();
        if (units < 1 || tensor.shape[rule.dim] % units != 0)
            return wrong("the units of its shard rule do not divide it").got(tensor.shape[rule.dim]).multiple_of(units);
        if (rule.has_kv_heads() && (rule.heads < 1 || rule.heads % rule.count != 0))
            return wrong("its key-value heads do not divide the query heads").got(rule.count).divisor_of(rule.heads);
        return {};
    }

    /// Sharded values have whole units; operations read what is made before them.
    static constexpr Result<> check_values(BlockBody const& body) {
        auto const count = static_cast<ValueId>(body.values().size());
        if (count == 0 || body.operations().empty())
            return Error{ErrorCode::invalid_argument}.in("program").because("a body has no operations");
        List<char> is_made(body.values().size(), char{0});
        for (std::size_t i = 0; i < body.values().size(); ++i) {
            auto const& value = body.values()[i];
            is_made[i] = i == 0 || value.is_external ? 1 : 0;
            auto const units = value.split.all_units();
            if (value.spread == Spread::sharded && (value.split.count < 1 || value.width % units != 0))
                return refusal("program", value.name, "its units do not divide its width")
                    .got(value.width)
                    .multiple_of(units);
        }
        for (auto const& op : body.operations()) {
            for (auto const input : op.inputs) {
                if (input == no_value) continue;
                if (input < 0 || input >= count)
                    return refusal("program", op.parameters[0], "the operation reads what is no value of its body",
                                   ErrorCode::invalid_argument);
                auto const id = static_cast<std::size_t>(input);
                if (is_made[id] == 0)
                    return refusal("program", body.values()[id].name,
                                   "an operation reads this value before one makes it", ErrorCode::invalid_argument);
            }
            if (op.output < 0 || op.output >= count)
                return refusal("program", op.parameters[0], "the operation's output is no value of its body",
                               ErrorCode::invalid_argument);
            is_made[static_cast<std::size_t>(op.output)] = 1;
        }
        return {};
    }

    /// A block reads the width that the one before it hands on; layers hand on whole values.
    constexpr Result<> check_hand_over() const {
        std::int64_t width = 0;
        for (auto const& block : program_.blocks()) {
            if (block.body < 0 || static_cast<std::size_t>(block.body) >= program_.bodies().size())
                return refusal("program", block.module, "the block executes a body that the program does not have",
                               ErrorCode::invalid_argument);
            auto const& body = program_.body(block);
            auto const& in = body.values()[0];
            auto const& out = body.values()[static_cast<std::size_t>(body.operations().back().output)];
            if (in.name == "hidden" && in.width != width)
                return refusal("program", block.module, "the block reads another width than the one before it hands on")
                    .got(in.width)
                    .expected(width);
            if (block.count > 1 && out.width != in.width)
                return refusal("program", block.module, "a layer hands on another width than the next one reads")
                    .got(out.width)
                    .expected(in.width);
            if (block.role == ModuleRole::layer && out.spread != Spread::replicated)
                return refusal("program", block.module, "a layer hands on what no rank holds whole");
            width = out.width;
        }
        return {};
    }

    constexpr Result<> check_block(Block const& block) const {
        auto const* const module = find_module(tree_, block.module);
        auto const missing = [&](std::string_view reason) {
            return refusal("program", block.module, reason, ErrorCode::not_covered);
        };
        if (module == nullptr) return missing("the tree has no module of this name");
        if (!block.is_numbered) return check_operations(block, *module);
        std::int64_t found = 0;
        for (std::uint32_t i = 0; i < module->child_count; ++i) {
            auto const& child = tree_.child(*module, i);
            if (!child.name.empty()) continue;
            auto const begin = child.first > block.first ? child.first : block.first;
            auto const child_end = child.first + child.count;
            auto const block_end = block.first + block.count;
            auto const end = child_end < block_end ? child_end : block_end;
            if (begin >= end) continue;
            found += end - begin;
            if (auto const checked = check_operations(block, tree_.module(child.module)); !checked) return checked;
        }
        if (found == block.count) return {};
        return missing("the program runs layers that the tree does not have").got(block.count).expected(found);
    }

    constexpr Result<> check_operations(Block const& block, Module const& module) const {
        auto const& body = program_.body(block);
        for (auto const& op : body.operations()) {
            // Halves of an adapter are no parameters of the tree.
            if (is_low_rank_half(op.parameters[0])) continue;
            for (auto const parameter : op.parameters) {
                if (!parameter.empty() && find_parameter(tree_, module, parameter) == nullptr)
                    return refusal(block.module, parameter, "the program reads a parameter that the tree does not have",
                                   ErrorCode::not_covered);
            }
            if (op.parameters[0].empty()) continue;
            auto const& weight = *find_parameter(tree_, module, op.parameters[0]);
            auto const wrong = [&](std::string_view reason) { return refusal(block.module, op.parameters[0], reason); };
            auto const& output = body.values()[static_cast<std::size_t>(op.output)];
            if (op.kind == OpKind::norm) {
                if (op.norm().has_head_weights) {
                    if (has_head_weights(weight, op, output)) continue;
                    return wrong("its rows are not the heads of the value that the operation normalises");
                }
                if (weight.shape.elements() == op.in_features) continue;
                return wrong("the operation normalises another width than the weight has")
                    .got(op.in_features)
                    .expected(weight.shape.elements());
            }
            if (op.kind != OpKind::linear && op.kind != OpKind::experts && op.kind != OpKind::embedding) continue;
            if (output.width != op.out_features)
                return wrong("the operation makes another width than its output has")
                    .got(op.out_features)
                    .expected(output.width);
            auto const rank = weight.shape.rank();
            auto const has_sides = [&](std::size_t out_side, std::size_t in_side) {
                return rank >= 2 && weight.shape[rank - out_side] == op.out_features &&
                       weight.shape[rank - in_side] == op.in_features;
            };
            // Conv1D weights, tables and some stacks of experts are stored transposed.
            bool const is_plain = has_sides(2, 1);
            bool const is_transposed = has_sides(1, 2);
            if (!is_plain && !is_transposed)
                return wrong("the weight's sides are not the operation's inputs and outputs")
                    .got(op.out_features)
                    .expected(rank >= 2 ? weight.shape[rank - 2] : 0);
            if (op.kind == OpKind::embedding) continue;
            auto const& input = body.values()[static_cast<std::size_t>(op.inputs[0])];
            if (op.in_features > input.width)
                return wrong("the operation reads more columns than its input has")
                    .got(op.in_features)
                    .expected(input.width);
            if (op.in_features < input.width && input.spread != Spread::replicated)
                return wrong("the operation reads a part of columns that no rank holds whole");
            if (!(is_plain && has_shares(weight, op, input, output, rank - 2)) &&
                !(is_transposed && has_shares(weight, op, input, output, rank - 1)))
                return wrong("a rank's share of the weight does not have the columns of the values around it");
            if (op.kind != OpKind::linear || op.parameters[1].empty()) continue;
            auto const& bias = *find_parameter(tree_, module, op.parameters[1]);
            if (bias.shape.elements() != op.out_features)
                return refusal(block.module, op.parameters[1], "the bias has another size than the outputs")
                    .got(bias.shape.elements())
                    .expected(op.out_features);
        }
        return {};
    }

    /// The weight is one head's, or has a row for each head, of which a rank has those of its columns.
    static constexpr bool has_head_weights(Tensor const& weight, Operation const& op, Value const& output) {
        auto const elements = weight.shape.elements();
        if (op.parameters[0].find('*') != std::string_view::npos) return elements == op.in_features;
        if (elements != output.width || weight.shape[weight.shape.rank() - 1] != op.in_features) return false;
        for (std::int64_t tp = 1; tp <= max_ranks_checked; ++tp) {
            for (std::int64_t k = 0; k < tp; ++k)
                if (ParameterShard(weight, tp, k).elements() != output.columns(tp, k)) return false;
        }
        return true;
    }

    /// On 1 to 8 tensor-parallel ranks a share of the weight has the columns of the values before and after it.
    static constexpr bool has_shares(Tensor const& weight, Operation const& op, Value const& input, Value const& output,
                                     std::size_t out_side) {
        auto const rank = weight.shape.rank();
        auto const in_side = out_side == rank - 1 ? rank - 2 : rank - 1;
        for (std::int64_t tp = 1; tp <= max_ranks_checked; ++tp) {
            for (std::int64_t k = 0; k < tp; ++k) {
                ParameterShard const shard(weight, tp, k);
                if (shard.extent(out_side) != output.columns(tp, k)) return false;
                bool const reads_all = op.in_features == input.width;
                if (shard.extent(in_side) != (reads_all ? input.columns(tp, k) : op.in_features)) return false;
            }
        }
        return true;
    }

    /// Every layer of the tree is executed once.
    constexpr Result<> check_layers() const {
        auto const instances = count_instances(tree_);
        std::int64_t layers = 0;
        for (std::size_t id = 0; id < instances.size(); ++id) {
            auto const& module = tree_.module(static_cast<ModuleId>(id));
            for (std::uint32_t i = 0; i < module.child_count; ++i) {
                auto const& child = tree_.child(module, i);
                if (child.role == ModuleRole::layer) layers += instances[id] * child.count;
            }
        }
        std::int64_t executed = 0;
        auto const& blocks = program_.blocks();
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            if (!blocks[i].is_numbered) continue;
            executed += blocks[i].count;
            for (std::size_t k = 0; k < i; ++k) {
                bool const overlap = blocks[k].is_numbered && blocks[k].module == blocks[i].module &&
                                     blocks[k].first < blocks[i].first + blocks[i].count &&
                                     blocks[i].first < blocks[k].first + blocks[k].count;
                if (overlap)
                    return refusal("program", blocks[i].module, "a layer is executed twice", ErrorCode::not_covered)
                        .got(blocks[i].first);
            }
        }
        if (executed == layers) return {};
        return Error{ErrorCode::not_covered}
            .in("program")
            .because("does not execute every layer of the tree once")
            .got(executed)
            .expected(layers);
    }

    ModuleTree const& tree_;
    BlockProgram const& program_;
};

}  // namespace detail

/// Checks that a model's tree and program describe the same model: the parameters that operations read exist and have their
/// sizes, blocks are modules of the tree and every layer is executed once, values are made before they are read, and on 1 to 8
/// tensor-parallel ranks each weight's share has the columns of the values around it. For who writes an architecture;
/// the executor asks it too.
///
/// Errors   shape_mismatch, not_covered, invalid_argument, naming the module, parameter or value
/// Example  static_assert(check_model(describe<MyFamily>(config).value()).has_value())
[[nodiscard]] constexpr Result<> check_model(Model const& model) {
    return detail::ModelChecker(model).check();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
