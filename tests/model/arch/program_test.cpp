// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/model/walk.hpp>

#include <doctest/doctest.h>

#include "golden_cases.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace shardwise;

/// The parameters of an expanded tree by name; numbers that stand below a list of experts, or of heads' norms, become `*`, as
/// programs write them.
using Parameters = std::map<std::string, Tensor const*>;

std::string with_star(std::string name) {
    for (std::string_view const list : {".experts.", "_layernorm.norms."}) {
        auto const at = name.find(list);
        if (at == std::string::npos) continue;
        auto const begin = at + list.size();
        auto const end = name.find('.', begin);
        if (end != std::string::npos && name[begin] >= '0' && name[begin] <= '9') name.replace(begin, end - begin, "*");
    }
    return name;
}

Parameters parameters_of(ModuleTree const& tree) {
    Parameters parameters;
    walk_tensors(tree, [&](std::string_view name, Tensor const& tensor) {
        if (tensor.kind != TensorKind::transient_buffer) parameters[with_star(std::string(name))] = &tensor;
    });
    return parameters;
}

/// The full name of a parameter that an operation reads in one place of the program.
std::string full_name(Block const& block, std::int32_t layer, std::string_view parameter) {
    // What several blocks share.
    if (parameter.substr(0, 1) == "/") return std::string(parameter.substr(1));
    std::string path(block.module);
    if (block.is_numbered) path += '.' + std::to_string(layer);
    return (path.empty() ? "" : path + '.') + std::string(parameter);
}

/// What a weight [out, in] of a linear operation must hold; conv1d and stacked experts have it the other way round.
bool has_sides(Shape const& shape, std::int64_t in, std::int64_t out) {
    auto const rank = shape.rank();
    if (rank < 2) return false;
    auto const a = shape[rank - 2];
    auto const b = shape[rank - 1];
    return (a == out && b == in) || (a == in && b == out);
}

/// Calls visit(block, layer, body, operation) for every operation of every place.
template <class Visit>
void for_each_operation(BlockProgram const& program, Visit visit) {
    for (auto const& block : program.blocks()) {
        auto const& body = program.body(block);
        for (std::int32_t i = 0; i < block.count; ++i) {
            for (auto const& operation : body.operations()) visit(block, block.first + i, body, operation);
        }
    }
}

}  // namespace

TEST_CASE("Programs read every parameter of their tree, and nothing that it lacks") {
    golden::for_each_case([](golden::Json const&, Model const& model) {
        auto const parameters = parameters_of(model.tree);
        std::set<std::string> read;
        for_each_operation(model.program,
                           [&](Block const& block, std::int32_t layer, BlockBody const&, Operation const& op) {
                               for (auto const parameter : op.parameters) {
                                   if (parameter.empty()) continue;
                                   auto const name = full_name(block, layer, parameter);
                                   CHECK_MESSAGE(parameters.count(name) == 1, name);
                                   read.insert(name);
                               }
                           });
        // A tied name counts as read where its other name is.
        for (auto const& tie : model.tree.ties()) {
            std::string const first(tie.first);
            std::string const other(tie.other);
            if (read.count(first) + read.count(other) > 0) read.insert({first, other});
        }
        // transformers makes bert's table of positions also where distances replace it.
        bool const has_idle_table =
            model.config.own.has("position_embedding_type") && model.config.own["position_embedding_type"] != 0;
        for (auto const& parameter : parameters) {
            auto const& name = parameter.first;
            bool const is_idle = has_idle_table && name.find("position_embeddings") != std::string::npos;
            CHECK_MESSAGE(read.count(name) == (is_idle ? 0 : 1), name);
        }
    });
}

TEST_CASE("Operations have the sizes of the parameters that they read") {
    golden::for_each_case([](golden::Json const&, Model const& model) {
        auto const parameters = parameters_of(model.tree);
        for_each_operation(model.program, [&](Block const& block, std::int32_t layer, BlockBody const& body,
                                              Operation const& op) {
            if (op.parameters[0].empty()) return;
            auto const name = full_name(block, layer, op.parameters[0]);
            auto const found = parameters.find(name);
            REQUIRE_MESSAGE(found != parameters.end(), name);
            auto const& tensor = *found->second;
            auto const& output = body.values()[static_cast<std::size_t>(op.output)];
            CAPTURE(name);
            switch (op.kind) {
                case OpKind::linear:
                case OpKind::experts:
                    CHECK(has_sides(tensor.shape, op.in_features, op.out_features));
                    CHECK(output.width == op.out_features);
                    break;
                case OpKind::embedding:
                    CHECK(has_sides(tensor.shape, op.in_features, op.out_features));
                    CHECK(output.width == op.out_features);
                    break;
                case OpKind::norm:
                    // A row for each head, or a parameter.
                    CHECK(tensor.shape.elements() ==
                          (op.norm().has_head_weights && tensor.shape.rank() == 2 ? output.width : op.in_features));
                    break;
                default:
                    break;
            }
            if (!op.parameters[1].empty() && op.kind == OpKind::linear) {
                CHECK(parameters.at(full_name(block, layer, op.parameters[1]))->shape.elements() == op.out_features);
            }
        });
    });
}

TEST_CASE("Inputs of operations exist before they are read") {
    golden::for_each_case([](golden::Json const&, Model const& model) {
        for (auto const& body : model.program.bodies()) {
            std::vector<bool> is_made(body.values().size(), false);
            is_made[0] = true;
            for (std::size_t i = 0; i < body.values().size(); ++i)
                is_made[i] = is_made[i] || body.values()[i].is_external;
            for (auto const& op : body.operations()) {
                for (auto const input : op.inputs) {
                    if (input != no_value) CHECK(is_made[static_cast<std::size_t>(input)]);
                }
                is_made[static_cast<std::size_t>(op.output)] = true;
            }
        }
    });
}

TEST_CASE("Shard rules shard whole units, and sharded values have whole units") {
    golden::for_each_case([](golden::Json const&, Model const& model) {
        for (auto const& tensor : model.tree.tensors()) {
            auto const& rule = tensor.shard;
            CAPTURE(tensor.name);
            if (rule.experts > 0) CHECK(tensor.shape[0] == rule.experts);
            if (rule.kind == ShardKind::replicated) continue;
            REQUIRE(rule.dim < tensor.shape.rank());
            auto const extent = tensor.shape[rule.dim];
            REQUIRE(rule.count > 0);
            CHECK(extent % rule.all_units() == 0);
            if (rule.has_kv_heads()) CHECK(rule.heads % rule.count == 0);
        }
        for (auto const& body : model.program.bodies()) {
            for (auto const& value : body.values()) {
                if (value.spread != Spread::sharded) continue;
                CHECK(value.width % value.split.all_units() == 0);
            }
        }
    });
}

TEST_CASE("Outputs are sharded as the rows of their weight are") {
    golden::for_each_case([](golden::Json const&, Model const& model) {
        auto const parameters = parameters_of(model.tree);
        for_each_operation(
            model.program, [&](Block const& block, std::int32_t layer, BlockBody const& body, Operation const& op) {
                if (op.kind != OpKind::linear && op.kind != OpKind::experts) return;
                auto const name = full_name(block, layer, op.parameters[0]);
                auto const& tensor = *parameters.at(name);
                auto const& output = body.values()[static_cast<std::size_t>(op.output)];
                CAPTURE(name);
                // conv1d and stacked experts keep [in, out].
                bool const is_transposed = tensor.shape[tensor.shape.rank() - 1] == op.out_features &&
                                           tensor.shape[tensor.shape.rank() - 2] == op.in_features &&
                                           (op.in_features != op.out_features || tensor.shard.experts > 0);
                auto const out_dim = tensor.shape.rank() - (is_transposed ? 1 : 2);
                bool const is_square = op.in_features == op.out_features && tensor.shard.experts == 0;
                if (output.spread == Spread::sharded) {
                    REQUIRE(tensor.shard.kind != ShardKind::replicated);
                    if (!is_square) CHECK(tensor.shard.dim == out_dim);
                    UnitSplit rule = tensor.shard;
                    rule.is_grouped = false;
                    // Columns in another order than the weight's rows: queries, keys and values; all gates, all ups.
                    if (op.kind == OpKind::linear && op.stored_heads().rows == HeadRows::grouped)
                        rule = UnitSplit::qkv(op.stored_heads().heads, op.stored_heads().kv_heads);
                    if (op.kind == OpKind::experts && op.routing().alternates)
                        rule = {tensor.shard.count, 2, ShardKind::packed_parts};
                    CHECK(output.split == rule);
                    for (std::int64_t tp = 1; tp <= 8; ++tp) {
                        for (std::int64_t rank = 0; rank < tp; ++rank)
                            CHECK(output.columns(tp, rank) == tensor.shard.extent(op.out_features, tp, rank));
                    }
                } else if (output.spread == Spread::partial) {
                    REQUIRE(tensor.shard.kind == ShardKind::units);
                    if (!is_square) CHECK(tensor.shard.dim != out_dim);
                    auto const& input = body.values()[static_cast<std::size_t>(op.inputs[0])];
                    CHECK(input.spread == Spread::sharded);
                } else {
                    CHECK(tensor.shard.kind == ShardKind::replicated);
                }
            });
    });
}
