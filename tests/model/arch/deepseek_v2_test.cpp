// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/deepseek_v2.hpp>

#include <doctest/doctest.h>

#include "family.hpp"

using namespace shardwise;

namespace {

constexpr auto lite = [](ModelConfig& config) {
    config.vocab_size = 102400;
    config.hidden_size = 2048;
    config.intermediate_size = 10944;
    config.expert_intermediate_size = 1408;
    config.layers = 27;
    config.heads = 16;
    config.q_lora_rank = 0;
    config.experts_per_token = 6;
    config.own.set("first_k_dense_replace", 1);
};

}  // namespace

// DeepSeek-V2-Lite: tests/golden/families/deepseek-v2-lite.json, from the published config.json.
static_assert(family::parameters<DeepseekV2>(lite) == 15'706'484'224);

TEST_CASE("deepseek_v2: without a rank queries come from one projection") {
    auto const model = family::made<DeepseekV2>(lite);
    CHECK(find_tensor(model.tree, "model.layers.0.self_attn.q_a_proj.weight") == nullptr);
    auto const* q = find_tensor(model.tree, "model.layers.0.self_attn.q_proj.weight");
    REQUIRE(q != nullptr);
    CHECK(q->shape == Shape{16 * 192, 2048});
    CHECK(q->shard == ShardRule::units(0, 16));
}

TEST_CASE("deepseek_v2: the first layers are dense, the others have experts and shared experts as one MLP") {
    auto const model = family::made<DeepseekV2>(lite);
    CHECK(find_tensor(model.tree, "model.layers.0.mlp.up_proj.weight")->shape == Shape{10944, 2048});
    CHECK(find_tensor(model.tree, "model.layers.1.mlp.experts.63.up_proj.weight")->shape == Shape{1408, 2048});
    CHECK(find_tensor(model.tree, "model.layers.1.mlp.shared_experts.up_proj.weight")->shape == Shape{2816, 2048});
}

TEST_CASE("deepseek_v2: impossible configs are refused by name") {
    CHECK(family::refusal<DeepseekV2>(family::unchanged) == "invalid_field num_experts_per_tok");
    auto const with = [](auto change) {
        return [=](ModelConfig& config) {
            lite(config);
            change(config);
        };
    };
    CHECK(family::refusal<DeepseekV2>(with([](ModelConfig& config) { config.experts_per_token = 65; })) ==
          "invalid_field num_experts_per_tok");
    CHECK(family::refusal<DeepseekV2>(with([](ModelConfig& config) { config.experts = 0; })) ==
          "invalid_field n_routed_experts");
    CHECK(family::refusal<DeepseekV2>(with([](ModelConfig& config) { config.kv_lora_rank = 0; })) ==
          "invalid_field kv_lora_rank");
    CHECK(family::refusal<DeepseekV2>(with([](ModelConfig& config) { config.qk_rope_head_dim = 63; })) ==
          "invalid_field qk_rope_head_dim");
    CHECK(family::refusal<DeepseekV2>(with([](ModelConfig& config) { config.own.set("first_k_dense_replace", -1); })) ==
          "invalid_field first_k_dense_replace");
}
