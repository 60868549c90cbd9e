// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/check_model.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include "golden_cases.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

using namespace shardwise;

namespace {

std::string checked(Model const& model) {
    auto const result = check_model(model);
    return result ? "legal" : result.error().message();
}

Model small_model() {
    auto config = presets::llama_3_8b;
    config.layers = 3;
    return describe(config).value();
}

/// The model with another program: `edit` may change each value and operation, and each block.
template <class EditValue, class EditOp, class EditBlock>
Model with_program(Model model, EditValue edit_value, EditOp edit_op, EditBlock edit_block) {
    BlockProgram program;
    for (auto const& body : model.program.bodies()) {
        auto values = body.values();
        for (auto& value : values) edit_value(value);
        BlockBody edited(values[0]);
        for (std::size_t i = 1; i < values.size(); ++i) edited.value(values[i]);
        for (auto op : body.operations()) {
            edit_op(op);
            edited.append(op);
        }
        program.add(std::move(edited));
    }
    for (auto block : model.program.blocks()) {
        edit_block(block);
        if (!block.is_numbered) {
            program.append(block.role, block.module, block.body);
        } else {
            program.append_layers(block.module, block.first, block.count, block.body);
        }
    }
    program.names() = std::move(model.program.names());
    model.program = std::move(program);
    return model;
}
template <class EditOp>
Model with_operations(Model model, EditOp edit) {
    return with_program(std::move(model), [](Value&) {}, edit, [](Block&) {});
}
template <class EditValue>
Model with_values(Model model, EditValue edit) {
    return with_program(std::move(model), edit, [](Operation&) {}, [](Block&) {});
}
template <class EditBlock>
Model with_blocks(Model model, EditBlock edit) {
    return with_program(std::move(model), [](Value&) {}, [](Operation&) {}, edit);
}

/// The model with other tensors.
template <class Edit>
Model with_tensors(Model model, Edit edit) {
    for (ModuleId id = 0; id < model.tree.modules().size(); ++id) {
        auto const module = model.tree.module(id);
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) edit(module, model.tree.tensor(module, i));
    }
    return model;
}

bool is_weight(Operation const& op, std::string_view name) { return op.parameters[0] == name; }

}  // namespace

TEST_CASE("check_model: every golden case of every family is legal") {
    std::set<std::string> families;
    golden::for_each_case([&](golden::Json const&, Model const& model) {
        families.insert(std::string(model.config.model_type.view()));
        CHECK(checked(model) == "legal");
    });
    // A family that begins in transformers 5: the trees of the golden cases are version 4.57's.
    for (auto const* const name : {"minimax-m2", "small-minimax_m2", "small-minimax_m2-tied", "small-minimax_m2-model"}) {
        CAPTURE(name);
        auto const file = read_config_file(golden::folder + "configs/" + name + ".json");
        REQUIRE(file);
        auto const model = describe(file->config);
        REQUIRE(model);
        families.insert(std::string(model->config.model_type.view()));
        CHECK(checked(*model) == "legal");
    }
    std::size_t known = 0;
    Architectures::for_each([&]<class Arch>(Arch) {
        ++known;
        CHECK_MESSAGE(families.count(std::string(Arch::name)) == 1, Arch::name);
    });
    CHECK(families.size() == known);
}

TEST_CASE("check_model: presets are legal in constant expressions") {
    static_assert(check_model(describe(presets::llama_3_70b).value()).has_value());
    static_assert(check_model(describe(presets::deepseek_v3).value()).has_value());
}

TEST_CASE("check_model: a parameter that the tree lacks is named") {
    auto const model = with_operations(small_model(), [](Operation& op) {
        if (is_weight(op, "mlp.up_proj.weight")) op.parameters[0] = "mlp.upp_proj.weight";
    });
    CHECK(checked(model) == "model.layers: mlp.upp_proj.weight: the program reads a parameter that the tree does not have");
    auto const norm = with_operations(small_model(), [](Operation& op) {
        if (is_weight(op, "input_layernorm.weight")) op.parameters[1] = "input_layernorm.bias";
    });
    CHECK(checked(norm) == "model.layers: input_layernorm.bias: the program reads a parameter that the tree does not have");
}

TEST_CASE("check_model: blocks that are not the tree's are named") {
    auto const renamed = with_blocks(small_model(), [](Block& block) {
        if (block.is_numbered) block.module = "model.layerz";
    });
    CHECK(checked(renamed) == "program: model.layerz: the tree has no module of this name");
    auto const head = with_blocks(small_model(), [](Block& block) {
        if (block.module == "lm_head") block.module = "head";
    });
    CHECK(checked(head) == "program: head: the tree has no module of this name");
    auto const more = with_blocks(small_model(), [](Block& block) {
        if (block.is_numbered) block.count = 5;
    });
    CHECK(checked(more).find("program: model.layers: the program runs layers that the tree does not have (got 5, expected 3)") == 0);
    auto const fewer = with_blocks(small_model(), [](Block& block) {
        if (block.is_numbered) block.count = 2;
    });
    CHECK(checked(fewer).find("program: does not execute every layer of the tree once (got 2, expected 3)") == 0);
    auto twice = small_model();
    twice.program.append_layers("model.layers", 2, 1, twice.program.blocks()[1].body);
    CHECK(checked(twice).find("program: model.layers: ") == 0);
    auto no_body = small_model();
    no_body.program.append(ModuleRole::head, "lm_head", 99);
    CHECK(checked(no_body).find("program: lm_head: the block executes a body that the program does not have") == 0);
}

TEST_CASE("check_model: sizes that differ are named with both numbers") {
    auto const outputs = with_operations(small_model(), [](Operation& op) {
        if (is_weight(op, "mlp.up_proj.weight")) op.out_features *= 2;
    });
    CHECK(checked(outputs) ==
          "model.layers: mlp.up_proj.weight: the operation makes another width than its output has (got 28672, expected 14336)");
    auto const inputs = with_operations(small_model(), [](Operation& op) {
        if (is_weight(op, "mlp.down_proj.weight")) op.in_features /= 2;
    });
    CHECK(checked(inputs).find("model.layers: mlp.down_proj.weight: the weight's sides are not") == 0);
    auto const norm = with_operations(small_model(), [](Operation& op) {
        if (is_weight(op, "post_attention_layernorm.weight")) op.in_features = 128;
    });
    CHECK(checked(norm) == "model.layers: post_attention_layernorm.weight: the operation normalises another width than the "
                           "weight has (got 128, expected 4096)");
    // Ranks that have other heads of a norm's weight than of the value.
    auto of_heads = small_model().config;
    of_heads.model_type.assign("cohere");
    of_heads.model_class.assign("CohereForCausalLM");
    of_heads.qk_norm = true;
    CHECK(checked(describe(of_heads).value()) == "legal");
    auto const shared = with_tensors(describe(of_heads).value(), [](Module const& module, Tensor& tensor) {
        if (module.class_name == "CohereLayerNorm" && tensor.shape.rank() == 2) tensor.shard = {};
    });
    CHECK(checked(shared).find("model.layers: self_attn.q_norm.weight: its rows are not the heads of the value") == 0);
    auto const table = with_operations(small_model(), [](Operation& op) {
        if (op.kind == OpKind::embedding) ++op.in_features;
    });
    CHECK(checked(table).find("model.embed_tokens: weight: the weight's sides are not") == 0);
    auto const hidden = with_values(small_model(), [](Value& value) {
        if (value.name == "hidden") value.width /= 2;
    });
    CHECK(checked(hidden).find("the block reads another width than the one before it hands on (got 2048, expected 4096)") !=
          std::string::npos);
    auto gpt2 = presets::gpt2;
    gpt2.layers = 1;
    auto const bias = with_tensors(describe(gpt2).value(), [](Module const&, Tensor& tensor) {
        if (tensor.name == "bias" && tensor.shape[0] == 3072) tensor.shape[0] = 768, tensor.shard = {};
    });
    CHECK(checked(bias).find("mlp.c_fc.bias: the bias has another size than the outputs (got 768, expected 3072)") !=
          std::string::npos);
}

TEST_CASE("check_model: values are made before they are read") {
    auto const late = with_operations(small_model(), [first = true](Operation& op) mutable {
        if (op.kind != OpKind::linear || !first) return;
        first = false;
        op.inputs[0] = op.output;
    });
    CHECK(checked(late).find("an operation reads this value before one makes it") != std::string::npos);
    auto const beyond = with_operations(small_model(), [](Operation& op) {
        if (is_weight(op, "mlp.up_proj.weight")) op.inputs[0] = 1000;
    });
    CHECK(checked(beyond) == "program: mlp.up_proj.weight: the operation reads what is no value of its body");
    auto const nowhere = with_operations(small_model(), [](Operation& op) {
        if (is_weight(op, "mlp.up_proj.weight")) op.output = -1;
    });
    CHECK(checked(nowhere).find("program: mlp.up_proj.weight: the operation's output is no value of its body") == 0);
}

TEST_CASE("check_model: shards that are not legal, or not those of the values around them, are named") {
    auto const is_up = [](Tensor const& tensor) {
        return tensor.shard.kind == ShardKind::units && tensor.shard.dim == 0 && tensor.shard.count == 14336;
    };
    auto const replicated = with_tensors(small_model(), [&](Module const&, Tensor& tensor) {
        if (is_up(tensor)) tensor.shard = {};
    });
    CHECK(checked(replicated).find("a rank's share of the weight does not have the columns of the values around it") !=
          std::string::npos);
    auto const other_units = with_tensors(small_model(), [&](Module const&, Tensor& tensor) {
        if (is_up(tensor)) tensor.shard.count = 14336 / 128;
    });
    CHECK(checked(other_units).find("a rank's share of the weight") != std::string::npos);
    auto const uneven = with_tensors(small_model(), [&](Module const&, Tensor& tensor) {
        if (is_up(tensor)) tensor.shard.count = 5;
    });
    CHECK(checked(uneven) ==
          "tree: weight: the units of its shard rule do not divide it (got 14336, expected a multiple of 5)");
    auto const beyond = with_tensors(small_model(), [&](Module const&, Tensor& tensor) {
        if (is_up(tensor)) tensor.shard.dim = 2;
    });
    CHECK(checked(beyond) == "tree: weight: its shard rule splits a dimension that it does not have");
    auto const heads = with_tensors(small_model(), [&](Module const&, Tensor& tensor) {
        if (tensor.shard.kind == ShardKind::kv_heads) tensor.shard.heads = 31;
    });
    CHECK(checked(heads) ==
          "tree: weight: its key-value heads do not divide the query heads (got 8, expected a divisor of 31)");
    auto const value_units = with_values(small_model(), [](Value& value) {
        if (value.spread == Spread::sharded && value.split.count == 14336) value.split.count = 5;
    });
    CHECK(checked(value_units).find("its units do not divide its width (got 14336, expected a multiple of 5)") !=
          std::string::npos);
    auto const partial = with_values(small_model(), [](Value& value) {
        if (value.spread == Spread::sharded && value.split.count == 14336) value.spread = Spread::replicated;
    });
    CHECK(checked(partial).find("a rank's share of the weight") != std::string::npos);
}
