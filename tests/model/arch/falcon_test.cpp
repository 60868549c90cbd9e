// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/falcon.hpp>

#include <doctest/doctest.h>

#include "family.hpp"

using namespace shardwise;

namespace {

constexpr auto falcon_40b = [](ModelConfig& config) {
    config.hidden_size = 8192;
    config.layers = 60;
    config.heads = 128;
    config.kv_heads = 8;
    config.own.set("new_decoder_architecture", 1);
};

constexpr auto falcon_rw_1b = [](ModelConfig& config) {
    config.vocab_size = 50304;
    config.hidden_size = 2048;
    config.layers = 24;
    config.heads = 32;
    config.alibi = config.attention_bias = true;
    config.own.set("parallel_attn", 0);
    config.own.set("multi_query", 0);
};

}  // namespace

// Counts: falcon-7b facts/memory.md, the others tests/golden/families/falcon-*.json, from the published config.json.
static_assert(family::parameters<Falcon>(family::unchanged) == 6'921'720'704);
static_assert(family::parameters<Falcon>(falcon_40b) == 41'303'293'952);
static_assert(family::parameters<Falcon>(falcon_rw_1b) == 1'311'625'216);

TEST_CASE("falcon: the three layouts pack q, k and v in three ways") {
    auto const rule = [](auto change) {
        auto const model = family::made<Falcon>(change);
        return find_tensor(model.tree, "transformer.h.0.self_attention.query_key_value.weight")->shard;
    };
    CHECK(rule(family::unchanged) == ShardRule::qkv(0, 71, 1));
    CHECK(rule(falcon_40b) == ShardRule::grouped_qkv(0, 128, 8));
    CHECK(rule(falcon_rw_1b) == ShardRule::units(0, 32));
}

TEST_CASE("falcon: the cache holds one head, the groups' heads or all heads") {
    CHECK(family::cached_per_token(family::made<Falcon>(family::unchanged)) == 32 * 2 * 64);
    CHECK(family::cached_per_token(family::made<Falcon>(falcon_40b)) == 60 * 8 * 2 * 64);
    CHECK(family::cached_per_token(family::made<Falcon>(falcon_rw_1b)) == 24 * 32 * 2 * 64);
}

TEST_CASE("falcon: the norms follow the layout") {
    auto const has = [](auto change, std::string_view norm) {
        auto const model = family::made<Falcon>(change);
        return find_tensor(model.tree, "transformer.h.0." + std::string(norm) + ".weight") != nullptr;
    };
    CHECK(has(family::unchanged, "input_layernorm"));
    CHECK_FALSE(has(family::unchanged, "post_attention_layernorm"));
    CHECK(has(falcon_40b, "ln_attn"));
    CHECK(has(falcon_40b, "ln_mlp"));
    CHECK_FALSE(has(falcon_40b, "input_layernorm"));
    CHECK(has(falcon_rw_1b, "post_attention_layernorm"));
    CHECK(has(
        [](ModelConfig& config) {
            falcon_40b(config);
            config.own.set("num_ln_in_parallel_attn", 1);  // falcon-11b
        },
        "input_layernorm"));
}

TEST_CASE("falcon: with alibi nothing is rotated") {
    CHECK(family::find_operation(family::made<Falcon>(family::unchanged), OpKind::rope) != nullptr);
    CHECK(family::find_operation(family::made<Falcon>(falcon_rw_1b), OpKind::rope) == nullptr);
}

TEST_CASE("falcon: impossible configs are refused under the keys of its config.json") {
    auto const with_kv_heads = [](std::int64_t kv_heads) {
        return [=](ModelConfig& config) {
            falcon_40b(config);
            config.kv_heads = kv_heads;
        };
    };
    CHECK(family::refusal<Falcon>(with_kv_heads(7)) == "invalid_field num_kv_heads");
    CHECK(family::refusal<Falcon>(with_kv_heads(-8)) == "invalid_field num_kv_heads");
    CHECK(family::refusal<Falcon>(with_kv_heads(16)) == "accepted");
    CHECK(family::refusal<Falcon>([](ModelConfig& config) { config.intermediate_size = -1; }) ==
          "invalid_field ffn_hidden_size");
}
