// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/weight.hpp>

#include <doctest/doctest.h>

#include <string_view>

using namespace shardwise;

TEST_CASE("Roles come out of transformers' names in every family") {
    struct Row {
        std::string_view name;
        WeightRole role;
    };
    for (auto const& row : {
             Row{"model.embed_tokens.weight", WeightRole::token_embedding},
             Row{"lm_head.weight", WeightRole::output},
             Row{"model.layers.3.self_attn.v_proj.weight", WeightRole::attention_v},
             Row{"model.layers.3.self_attn.v_proj.bias", WeightRole::other},
             Row{"model.layers.3.self_attn.q_norm.weight", WeightRole::other},
             Row{"model.layers.3.mlp.experts.7.down_proj.weight", WeightRole::ffn_down},
             Row{"model.layers.3.mlp.experts.gate_up_proj", WeightRole::ffn_up},
             Row{"model.layers.3.mlp.experts.gate_up_proj_bias", WeightRole::other},
             Row{"model.layers.3.mlp.gate.weight", WeightRole::router},
             Row{"model.layers.3.mlp.shared_expert_gate.weight", WeightRole::router},
             Row{"model.layers.0.block_sparse_moe.experts.1.w2.weight", WeightRole::ffn_down},
             Row{"model.layers.0.self_attn.kv_b_proj.weight", WeightRole::attention_kv_b},
             Row{"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", WeightRole::other},
             Row{"model.layers.0.self_attn.dense.weight", WeightRole::attention_output},
             Row{"transformer.wte.weight", WeightRole::token_embedding},
             Row{"transformer.wpe.weight", WeightRole::side_table},
             Row{"transformer.h.0.attn.c_attn.weight", WeightRole::attention_qkv},
             Row{"transformer.h.0.attn.c_proj.weight", WeightRole::attention_output},
             Row{"transformer.h.0.mlp.c_proj.weight", WeightRole::ffn_down},
             Row{"transformer.h.0.self_attention.dense.weight", WeightRole::attention_output},
             Row{"transformer.h.0.mlp.dense_h_to_4h.weight", WeightRole::ffn_up},
             Row{"gpt_neox.layers.0.attention.dense.weight", WeightRole::attention_output},
             Row{"bert.encoder.layer.0.attention.output.dense.weight", WeightRole::attention_output},
             Row{"bert.encoder.layer.0.output.dense.weight", WeightRole::ffn_down},
             Row{"bert.encoder.layer.0.intermediate.dense.weight", WeightRole::ffn_up},
             Row{"bert.embeddings.token_type_embeddings.weight", WeightRole::side_table},
             Row{"encoder.block.0.layer.0.SelfAttention.k.weight", WeightRole::attention_k},
             Row{"encoder.block.0.layer.1.DenseReluDense.wo.weight", WeightRole::ffn_down},
             Row{"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", WeightRole::relative_bias},
         }) {
        CAPTURE(row.name);
        CHECK(weight_role(row.name) == row.role);
    }
}

TEST_CASE("Roles come out of GGUF's names as llama.cpp finds them") {
    CHECK(weight_role("token_embd.weight") == WeightRole::token_embedding);
    CHECK(weight_role("output.weight") == WeightRole::output);
    CHECK(weight_role("output_norm.weight") == WeightRole::other);
    CHECK(weight_role("blk.12.attn_qkv.weight") == WeightRole::attention_qkv);
    CHECK(weight_role("blk.12.ffn_down_exps.weight") == WeightRole::ffn_down);
    CHECK(weight_role("blk.12.ffn_up_shexp.weight") == WeightRole::ffn_up);
    CHECK(weight_role("blk.12.ffn_gate_inp.weight") == WeightRole::router);
    CHECK(weight_role("dec.blk.0.cross_attn_v.weight") == WeightRole::attention_v);
    CHECK(weight_role("blk.0.attn_q_a.weight") == WeightRole::other);
    CHECK(weight_role("") == WeightRole::other);
    CHECK(weight_role("weight") == WeightRole::other);
    CHECK(weight_role("a_module_whose_name_is_longer_than_any_known.weight") == WeightRole::other);
}

TEST_CASE("Experts are known by their names, linear modules by their classes") {
    CHECK(is_expert_name("model.layers.3.mlp.experts.7.down_proj.weight"));
    CHECK(is_expert_name("blk.3.ffn_up_exps.weight"));
    CHECK_FALSE(is_expert_name("blk.3.ffn_up_shexp.weight"));
    CHECK_FALSE(is_expert_name("model.layers.3.mlp.shared_experts.up_proj.weight"));
    CHECK(is_linear_class("Linear"));
    CHECK(is_linear_class("FalconLinear"));
    CHECK(is_linear_class("Conv1D"));
    CHECK_FALSE(is_linear_class("Embedding"));
}

TEST_CASE("Inputs and outputs follow the layout") {
    Weight weight{.shape = {8, 3, 5}};
    CHECK(weight.inputs() == 5);
    CHECK(weight.outputs() == 3);
    weight.is_transposed = true;
    CHECK(weight.inputs() == 3);
    CHECK(weight.outputs() == 5);
    CHECK(Weight{.shape = {1, 1, 7}}.dimensions() == 1);
    CHECK(Weight{.shape = {7, 1}}.dimensions() == 2);
    CHECK(Weight{.shape = {}}.inputs() == 1);
}
