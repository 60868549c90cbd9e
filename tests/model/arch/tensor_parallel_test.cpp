// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/shard.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/op/step.hpp>

#include <doctest/doctest.h>

#include "golden_cases.hpp"

#include <cstdint>
#include <string>
#include <string_view>

using namespace shardwise;

namespace {

std::string join(std::string_view module, std::string_view name) {
    return module.empty() ? std::string(name) : std::string(module) + "." + std::string(name);
}

/// The full name of the weight that an operation of a block's first repetition reads; expert 0's where it has experts.
std::string weight_name(Block const& block, Operation const& op) {
    auto const module = block.is_numbered ? join(block.module, std::to_string(block.first)) : std::string(block.module);
    auto name = join(module, op.parameters[0]);
    auto const star = name.find('*');
    if (star != std::string::npos) name.replace(star, 1, "0");
    return name;
}

std::int64_t columns(Value const& value, std::int64_t tp, std::int64_t rank) {
    return value.columns(tp, rank);
}

}  // namespace

TEST_CASE("On every tensor-parallel rank a weight's share has the rows and columns of the values around it") {
    golden::for_each_case([](golden::Json const&, Model const& model) {
        for (auto const& block : model.program.blocks()) {
            auto const& body = model.program.body(block);
            for (auto const& op : body.operations()) {
                if (op.kind != OpKind::linear && op.kind != OpKind::experts) continue;
                auto const name = weight_name(block, op);
                auto const* weight = find_tensor(model.tree, name);
                REQUIRE(weight != nullptr);
                if (weight->shape.rank() != 2) continue;  // experts stacked in one tensor
                // Conv1D weights are [in, out].
                bool const is_conv1d = model.config.model_type.view() == "gpt2" && name.substr(0, 2) != "lm" &&
                                       name != "score.weight" && name != "classifier.weight";
                auto const out_side = is_conv1d ? 1U : 0U;
                auto const& in = body.values()[static_cast<std::size_t>(op.inputs[0])];
                auto const& out = body.values()[static_cast<std::size_t>(op.output)];
                CAPTURE(name);
                for (std::int64_t const tp : {1, 2, 3, 4, 8}) {
                    for (std::int64_t rank = 0; rank < tp; ++rank) {
                        auto const share = shard_of(*weight, {.tp = tp}, {.tp = rank});
                        CAPTURE(tp);
                        CAPTURE(rank);
                        CHECK(share.extent(out_side) == columns(out, tp, rank));
                        // MLA's second key-value projection reads a part of its input's columns, which all ranks hold.
                        if (op.in_features != in.width)
                            CHECK(in.spread == Spread::replicated);
                        else
                            CHECK(share.extent(1 - out_side) == columns(in, tp, rank));
                    }
                }
            }
        }
    });
}

TEST_CASE("Blocks hand on what the next block reads, whole on every rank between layers") {
    golden::for_each_case([](golden::Json const&, Model const& model) {
        std::int64_t width = 0;
        for (auto const& block : model.program.blocks()) {
            auto const& body = model.program.body(block);
            auto const& in = body.values()[0];
            auto const& out = body.values()[static_cast<std::size_t>(body.operations().back().output)];
            CAPTURE(block.module);
            if (in.name == "hidden") CHECK(in.width == width);
            if (block.count > 1) CHECK(out.width == in.width);
            if (block.role == ModuleRole::layer) CHECK(out.spread == Spread::replicated);
            width = out.width;
        }
    });
}

TEST_CASE("Every layer of the tree is executed once") {
    golden::for_each_case([](golden::Json const&, Model const& model) {
        std::int64_t executed = 0;
        for (auto const& block : model.program.blocks()) executed += block.is_numbered ? block.count : 0;
        std::int64_t layers = 0;
        walk(
            model.tree,
            [&](std::string_view, Module const&, ModuleRole role) { layers += role == ModuleRole::layer ? 1 : 0; },
            [](std::string_view, Tensor const&) {});
        CHECK(executed == layers);
    });
}
