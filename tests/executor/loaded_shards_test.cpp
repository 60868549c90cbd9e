// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/stored_rows.hpp>
#include <shardwise/model/find_module.hpp>
#include <shardwise/model/parameter_shard.hpp>

#include <doctest/doctest.h>

#include "../model/arch/golden_cases.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

/// Loading cuts weights by the values of blocks, estimates by the rules of the tree: both have to hold the same.
namespace {

using namespace shardwise;

/// Ranges in order, those that touch as one.
std::vector<UnitRange> joined(std::vector<UnitRange> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](auto const& a, auto const& b) { return a.begin < b.begin; });
    std::vector<UnitRange> out;
    for (auto const& range : ranges) {
        if (range.size() == 0) continue;
        if (!out.empty() && out.back().end >= range.begin)
            out.back().end = std::max(out.back().end, range.end);
        else
            out.push_back(range);
    }
    return out;
}

std::vector<UnitRange> shard_ranges(Tensor const& tensor, std::size_t dim, std::int64_t tp, std::int64_t rank,
                                    UnitGrain grain) {
    std::vector<UnitRange> ranges;
    ParameterShard(tensor, tp, rank, 1, 0, grain).for_each_range(dim, false, [&](UnitRange range) {
        ranges.push_back(range);
    });
    return joined(std::move(ranges));
}

/// Rows of a stack in which gates and ups alternate, of columns that count all gates first.
std::vector<UnitRange> alternating(std::vector<UnitRange> const& ranges, std::int64_t width) {
    std::vector<UnitRange> rows;
    for (auto const& range : ranges) {
        for (auto column = range.begin; column < range.end; ++column) {
            auto const at = column < width / 2 ? 2 * column : 2 * (column - width / 2) + 1;
            rows.push_back({at, at + 1});
        }
    }
    return rows;
}

/// What every rank loads of the weights of a block's products, where blocks of `grain` are not parted, is its ParameterShard.
template <class Policy>
std::int64_t check_block(Model const& model, Block const& block, Module const& module, WeightGrain grain) {
    auto const& tree = model.tree;
    auto const& body = model.program.body(block);
    std::int64_t weights = 0;
    for (std::int64_t tp = 1; tp <= 8; ++tp) {
        for (std::int64_t rank = 0; rank < tp; ++rank) {
            auto const cut = detail::BlockCutter<Policy>(body, {tp, rank}, [&](Operation const&) {
                                 return Result<WeightGrain>(grain);
                             }).cut();
            // More ranks than heads are refused.
            if (!cut) continue;
            for (auto const& op : body.operations()) {
                if (op.kind != OpKind::linear && op.kind != OpKind::experts) continue;
                if (attention_that_expands(op.output, body) != nullptr) continue;
                StoredParameter stored;
                stored.tensor = find_parameter(tree, module, op.parameters[0]);
                REQUIRE(stored.tensor != nullptr);
                auto const& tensor = *stored.tensor;
                CAPTURE(op.parameters[0]);
                CAPTURE(tp);
                CAPTURE(rank);
                CAPTURE(grain.input);
                auto const last = tensor.shape.rank() - 1;
                auto const out_dim = tensor.is_transposed ? last : last - 1;
                auto const in_dim = tensor.is_transposed ? last - 1 : last;
                auto const& made = body.values()[static_cast<std::size_t>(op.output)];
                auto const& columns = cut->columns[static_cast<std::size_t>(op.output)];
                auto const& inputs = cut->columns[static_cast<std::size_t>(op.inputs[0])];
                ++weights;
                if (made.spread == Spread::partial) {
                    auto const together = cut->grains[static_cast<std::size_t>(op.inputs[0])];
                    CHECK(joined(inputs) == shard_ranges(tensor, in_dim, tp, rank, together));
                    continue;
                }
                auto rows = stored_rows(op, body, model, stored, false, columns);
                bool const alternates = tensor.shard.experts > 0 && tensor.shard.kind == ShardKind::units &&
                                        tensor.shape[out_dim] == 2 * tensor.shard.count;
                if (alternates) rows = alternating(rows, op.out_features);
                auto const together = cut->grains[static_cast<std::size_t>(op.output)];
                CHECK(joined(rows) == shard_ranges(tensor, out_dim, tp, rank, together));
            }
        }
    }
    return weights;
}

/// The module of a block's first layer.
Module const& module_of(ModuleTree const& tree, Block const& block) {
    auto const* module = find_module(tree, block.module);
    REQUIRE(module != nullptr);
    for (std::uint32_t i = 0; block.is_numbered && i < module->child_count; ++i) {
        auto const& child = tree.child(*module, i);
        if (block.first >= child.first && block.first < child.first + child.count) return tree.module(child.module);
    }
    return *module;
}

}  // namespace

TEST_CASE("load: what a rank loads of a product's weight is the shard that estimates count") {
    std::int64_t weights = 0;
    golden::for_each_case([&](golden::Json const&, Model const& model) {
        for (auto const& block : model.program.blocks())
            weights += check_block<Fast>(model, block, module_of(model.tree, block), {});
    });
    CHECK(weights > 10'000);
}

TEST_CASE("load: where blocks and leaves stay whole the shard has the grain of the sum") {
    std::int64_t weights = 0;
    golden::for_each_case([&](golden::Json const&, Model const& model) {
        for (auto const& block : model.program.blocks()) {
            auto const& module = module_of(model.tree, block);
            weights += check_block<Deterministic>(model, block, module, {});
            for (std::int64_t const size : {32, 256}) {
                weights += check_block<Fast>(model, block, module, {size, size});
                weights += check_block<Deterministic>(model, block, module, {size, size});
            }
        }
    });
    CHECK(weights > 10'000);
}
