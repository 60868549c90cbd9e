// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/phi.hpp>

#include <doctest/doctest.h>

#include "family.hpp"

using namespace shardwise;

namespace {

constexpr auto phi_2 = [](ModelConfig& config) {
    config.hidden_size = 2560;
    config.intermediate_size = 10240;
    config.layers = 32;
    config.rope.partial_rotary_factor = 0.4;
};

}  // namespace

// Counts: tests/golden/families/phi-1_5.json and phi-2.json, from the published config.json.
static_assert(family::parameters<Phi>(family::unchanged) == 1'418'270'720);
static_assert(family::parameters<Phi>(phi_2) == 2'779'683'840);

TEST_CASE("phi: attention and MLP read the same norm") {
    auto const model = family::made<Phi>(phi_2);
    ValueId q_input = no_value;
    ValueId mlp_input = no_value;
    for (auto const& body : model.program.bodies()) {
        for (auto const& op : body.operations()) {
            if (op.parameters[0] == "self_attn.q_proj.weight") q_input = op.inputs[0];
            if (op.parameters[0] == "mlp.fc1.weight") mlp_input = op.inputs[0];
        }
    }
    CHECK(q_input > 0);
    CHECK(q_input == mlp_input);
}

TEST_CASE("phi: the head's bias is sharded with the vocabulary") {
    auto const model = family::made<Phi>(phi_2);
    CHECK(find_tensor(model.tree, "lm_head.bias")->shard == ShardRule::units(0, 51200));
}

TEST_CASE("phi: 0.4 of a head of 80 are 32 rotated elements") {
    CHECK(find_tensor(family::made<Phi>(phi_2).tree, "model.rotary_emb.inv_freq")->shape == Shape{16});
}

TEST_CASE("phi: heads' norms have weights and biases of one head") {
    auto const model = family::made<Phi>([](ModelConfig& config) { config.qk_norm = true; });
    CHECK(find_tensor(model.tree, "model.layers.0.self_attn.q_layernorm.bias")->shape == Shape{64});
    CHECK(find_tensor(family::made<Phi>(family::unchanged).tree, "model.layers.0.self_attn.q_layernorm.bias") ==
          nullptr);
}

TEST_CASE("phi: impossible configs are refused by name") {
    CHECK(family::refusal<Phi>([](ModelConfig& config) { config.kv_heads = 5; }) ==
          "invalid_field num_key_value_heads");
    CHECK(family::refusal<Phi>([](ModelConfig& config) { config.rope.partial_rotary_factor = 0.0; }) ==
          "invalid_field partial_rotary_factor");
}
